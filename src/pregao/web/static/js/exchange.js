// Exchange panel: status, market operations and orders.

import { ask, send } from "./api.js";
import { element, find, table } from "./dom.js";
import * as format from "./format.js";

const PHASES = ["PRE_OPEN", "OPEN", "PAUSE", "PRE_CLOSE", "CLOSE", "FINAL_CLOSING_CALL"];
const BANDS = ["REJECTION_BAND", "AUCTION_LIMITS", "HARD_LIMIT", "STATIC_LIMITS"];
// Figures that can be published: the command and the field of its value.
const FIGURES = {
  SETTLEMENT_PRICE: ["settlement", "price"],
  CLOSING_PRICE: ["closing", "price"],
  REFERENCE_PRICE: ["reference", "price"],
  OPEN_INTEREST: ["open-interest", "quantity"],
  MAXIMUM_QUANTITY: ["quantity-band", "maximum"],
  DELTA: ["delta", "delta"],
};
const QUANTITIES = ["quantity", "maximum"];
const MIDPOINTS = ["LAST_TRADED_PRICE", "COMPLEMENTARY_LAST_PRICE", "THEORETICAL_PRICE"];
const LIMITS = ["executions", "new_order_fills", "traded_quantity", "net_quantity", "delta"];
const SCOPES = ["BOTH", "INSTRUMENT", "OPTIONS"];

export class ExchangeView {
  constructor(page, problem) {
    this.page = page;
    this.problem = problem;
    this.log = element("div", { class: "log", "aria-live": "polite" });
    this.facts = element("dl");
    this.sessions = element("div", { class: "table" });
    this.orders = element("div", { class: "table" });
    this.phases = element("div", { class: "table" });
    const host = find('.view[data-of="exchange"]');
    host.replaceChildren(
      this.panel("Order", this.orderForm()),
      this.panel("Market operations", this.operations()),
      this.panel("Log", this.log),
      this.panel("Own orders", this.orders),
      this.panel("Sessions", this.sessions),
      this.panel("Phases", this.phases, this.facts),
    );
    setInterval(() => page.view === "exchange" && this.refresh(), 1000);
  }

  panel(title, ...content) {
    return element("div", { class: "panel" }, element("h2", { text: title }), ...content);
  }

  load() {
    const best = this.page.book?.sides?.[0]?.levels?.[0]?.[0];
    if (best !== undefined && best !== null && !this.price.value) this.price.value = format.price(best, this.page.digits).replaceAll(",", "");
    return this.refresh();
  }

  orderForm() {
    this.symbol = element("input", { readonly: true, "aria-label": "Instrument" });
    this.quantity = element("input", { type: "number", min: 1, value: 100, class: "num" });
    this.price = element("input", { inputmode: "decimal", placeholder: "market order", class: "num" });
    const form = element("form", { class: "form" },
      element("label", { text: "instrument" }, this.symbol),
      element("label", { text: "quantity" }, this.quantity),
      element("label", { text: "price" }, this.price),
      element("div", { class: "row" },
        element("button", { type: "button", class: "buy", text: "Buy", onclick: () => this.enter("BUY") }),
        element("button", { type: "button", class: "sell", text: "Sell", onclick: () => this.enter("SELL") })));
    form.addEventListener("submit", (event) => event.preventDefault());
    return form;
  }

  operations() {
    const phase = element("select", { "aria-label": "Phase" });
    for (const name of PHASES) phase.append(element("option", { value: name, text: format.words(name) }));
    phase.value = "OPEN";
    const trade = element("input", { type: "number", min: 1, class: "num", placeholder: "last trade" });
    const number = () => Number(trade.value) || this.page.trades.at(-1)?.[5] || 0;
    const price = element("input", { class: "num" });
    const quantity = element("input", { class: "num" });
    const choice = (title, names) => {
      const made = element("select", { "aria-label": title });
      for (const name of names) made.append(element("option", { value: name, text: format.words(name) }));
      return made;
    };
    const figure = choice("Figure", Object.keys(FIGURES));
    const value = element("input", { class: "num" });
    const publish = () => {
      const [command, field] = FIGURES[figure.value];
      return { command, symbol: symbol(), [field]: QUANTITIES.includes(field) ? Number(value.value) : value.value };
    };
    const band = choice("Band", BANDS);
    const unit = choice("Unit of the limits", ["PRICES", ...MIDPOINTS]);
    const percent = () => (unit.value === "PRICES" ? {} : { limits: "PERCENTAGE", midpoint: unit.value });
    const low = element("input", { class: "num" });
    const high = element("input", { class: "num" });
    const wholeNumber = (title) => element("input", { type: "number", min: 0, class: "num", "aria-label": title });
    const [id, firm, account, maximum] = ["Protection", "Firm", "Account", "Maximum"].map(wholeNumber);
    const limit = choice("Limit", LIMITS);
    const counts = choice("Counts", SCOPES);
    const cancels = choice("Cancels", SCOPES);
    const protect = () => ({ command: "protect", symbol: symbol(), id: id.value, firm: firm.value, account: account.value, limit: limit.value, maximum: maximum.value, counts: counts.value, cancels: cancels.value });
    const headline = element("input", { placeholder: "Headline" });
    const act = (title, work) => element("button", { type: "button", text: title, onclick: work });
    const symbol = () => this.page.about?.symbol;
    return element("div", { class: "form" },
      element("label", { text: "all groups" }, phase),
      element("div", { class: "row" }, act("Change phase", () => this.act({ command: "phase", group: "all", phase: phase.value }))),
      element("div", { class: "row" },
        act("Halt", () => this.act({ command: "halt", symbol: symbol() })),
        act("Auction (2 min)", () => this.act({ command: "auction", symbol: symbol() })),
        act("Forbid", () => this.act({ command: "forbid", symbol: symbol() })),
        act("Resume", () => this.act({ command: "resume", symbol: symbol() }))),
      element("div", { class: "row" },
        act("Delete bids", () => this.act({ command: "delete-side", symbol: symbol(), side: "BUY" })),
        act("Delete offers", () => this.act({ command: "delete-side", symbol: symbol(), side: "SELL" })),
        act("Reset book", () => this.act({ command: "reset-book", symbol: symbol() })),
        act("Reset stream", () => this.act({ command: "reset-stream", symbol: symbol(), channel: this.page.about?.channel }))),
      element("label", { text: "trade" }, trade),
      element("label", { text: "price" }, price),
      element("label", { text: "quantity" }, quantity),
      element("div", { class: "row" },
        act("Bust", () => this.act({ command: "bust", symbol: symbol(), trade: number() })),
        act("Amend", () => this.act({ command: "amend-trade", symbol: symbol(), trade: number(), price: price.value, quantity: Number(quantity.value) })),
        act("Enter", () => this.act({ command: "trade", symbol: symbol(), price: price.value, quantity: Number(quantity.value) }))),
      element("label", { text: "figure" }, figure),
      element("label", { text: "value" }, value),
      element("div", { class: "row" }, act("Publish figure", () => this.act(publish()))),
      element("label", { text: "band" }, band),
      element("label", { text: "in percent of" }, unit),
      element("label", { text: "low" }, low),
      element("label", { text: "high" }, high),
      element("div", { class: "row" }, act("Set band", () => this.act({ command: "band", symbol: symbol(), kind: band.value, low: low.value, high: high.value, ...percent() }))),
      element("label", { text: "protection" }, id),
      element("label", { text: "firm" }, firm),
      element("label", { text: "account" }, account),
      element("label", { text: "limit" }, limit),
      element("label", { text: "maximum in 15 s" }, maximum),
      element("label", { text: "counts" }, counts),
      element("label", { text: "cancels" }, cancels),
      element("div", { class: "row" }, act("Protect", () => this.act(protect()))),
      element("label", { text: "as a leg of new spreads" }),
      element("div", { class: "row" },
        act("Blacklist", () => this.act({ command: "blacklist", symbol: symbol() })),
        act("Allow", () => this.act({ command: "blacklist", symbol: symbol(), remove: "yes" }))),
      element("label", { text: "news" }, headline),
      element("div", { class: "row" }, act("Publish", () => this.act({ command: "news", headline: headline.value }))));
  }

  report(text, kind = null) {
    const line = element("div", { text: `${new Date().toISOString().slice(11, 19)} ${text}`, class: kind });
    this.log.prepend(line);
    while (this.log.children.length > 100) this.log.lastChild.remove();
  }

  async act(request) {
    if ("symbol" in request && !request.symbol) {
      this.report("Select an instrument first: press / to search.", "down");
      return;
    }
    try {
      await send("/api/exchange/do", request);
      this.report(`${request.command} ${request.symbol ?? request.phase ?? request.headline ?? ""}: done`);
    } catch (error) {
      this.report(error.message, "down");
    }
    this.refresh();
  }

  async enter(side) {
    if (!this.page.about) {
      this.report("Select an instrument first: press / to search.", "down");
      return;
    }
    try {
      const response = await send("/api/exchange/order", { side, id: this.page.about.id, quantity: Number(this.quantity.value), price: this.price.value });
      const { values } = response;
      this.report(`${response.answer} ${side} ${this.quantity.value} ${this.page.about.symbol}${values.orderID ? ` order ${values.orderID}` : ""}${values.ordRejReason ? ` reason ${values.ordRejReason}` : ""}`, /Reject/.test(response.answer) ? "down" : "up");
    } catch (error) {
      this.report(error.message, "down");
    }
    this.refresh();
  }

  async refresh() {
    this.symbol.value = this.page.about?.symbol ?? "";
    let status;
    try {
      status = await ask("/api/exchange");
      this.problem(null);
    } catch (error) {
      this.problem(error.message);
      return;
    }
    this.facts.replaceChildren();
    for (const [name, value] of [["day", status.trade_date], ["gateway", status.gateway], ["connections", status.connections], ["requests", format.count(status.requests)], ["resting orders", format.count(status.orders)]]) {
      this.facts.append(element("dt", { text: name }), element("dd", { text: value }));
    }
    this.phases.replaceChildren(table([["group", false], ["phase", false]], Object.entries(status.phases).map(([group, phase]) => [group, format.words(phase)])));
    this.sessions.replaceChildren(table(
      [["session", false], ["firm", true], ["connected", false], ["next in", true], ["next out", true]],
      status.sessions.map((one) => [`${one.session}${String(one.session) === status.own_session ? " (page)" : ""}`, one.firm, one.connected ? "yes" : "", format.count(one.next_incoming), format.count(one.next_outgoing)])));
    this.orders.replaceChildren(table(
      [["order", false], ["side", false], ["quantity", true], ["price", true], ["traded", true], ["status", false]],
      status.own_orders.map((one) => [one.id, format.words(one.side), format.count(one.quantity), one.price ?? "market", format.count(one.traded), format.words(one.status)]), "no orders yet"));
  }
}
