// Requests to the server of the page.

export class Problem extends Error {}

// Busy responses are retried.
const BUSY = 503;
const ATTEMPTS = 3;

export async function ask(path, parameters = {}, signal = undefined) {
  const address = new URL(path, location.origin);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined) address.searchParams.set(name, value);
  }
  let response;
  try {
    for (let attempt = 0; ; attempt += 1) {
      response = await fetch(address, { signal });
      if (response.status !== BUSY || attempt === ATTEMPTS) break;
      await new Promise((done) => setTimeout(done, 1000));
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server of this page does not respond. Is `pregao ui` still running?");
  }
  let data;
  try {
    data = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(`The server responded with status ${response.status}.`);
  }
  if (!response.ok) throw new Problem(data.error ?? `The server responded with status ${response.status}.`);
  return data;
}

// Requests of which only the newest matters: a new one aborts the previous one.
export class Newest {
  ask(path, parameters) {
    this.open?.abort();
    this.open = new AbortController();
    return ask(path, parameters, this.open.signal);
  }
}

export async function send(path, data) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(data),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(answer.error ?? `The server responded with status ${response.status}.`);
  return answer;
}

// A WebSocket that reconnects when the connection is lost.
export class Line {
  constructor(path, { onmessage, onopen = () => {}, onlost = () => {} }) {
    this.path = path;
    this.handlers = { onmessage, onopen, onlost };
    this.closed = false;
    this.wait = 250;
    this.waiting = [];
    this.connect();
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${this.path}`);
    this.socket.addEventListener("open", () => {
      this.wait = 250;
      this.handlers.onopen();
      for (const text of this.waiting.splice(0)) this.socket.send(text);
    });
    this.socket.addEventListener("message", (event) => this.handlers.onmessage(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => {
      if (this.closed) return;
      this.handlers.onlost();
      setTimeout(() => this.closed || this.connect(), this.wait);
      this.wait = Math.min(4000, this.wait * 2);
    });
  }

  send(data) {
    const text = JSON.stringify(data);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting = [...this.waiting, text].slice(-4);
  }

  close() {
    this.closed = true;
    this.socket.close();
  }
}
