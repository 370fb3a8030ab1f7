"""Configurations of the live feed as text, for commands that read a file."""

from __future__ import annotations

import json
from string import ascii_uppercase

from pregao.feed.channel.settings import ChannelSettings
from pregao.live import LiveConfig
from pregao.live.config import _NUMBERS, _SPANS, BACKUP_FEED, STREAMS
from pregao.net.sockets import BUFFER_BYTES


def config_text(config: LiveConfig) -> str:
    """A configuration as the text of a TOML file."""
    parts = (
        [f"buffer_bytes = {config.buffer_bytes}\n"] if config.buffer_bytes != BUFFER_BYTES else []
    )
    parts += [f"{name} = true\n" for name in ("spin", "realtime") if getattr(config, name)]
    for channel in config.channels:
        number = channel.number
        parts += [f"\n[channel.{number}]\n", *_settings(channel)]
        if number in config.processes:
            parts.append(f"process = {json.dumps(config.processes[number])}\n")
        gateways = config.recoveries.get(number)
        if gateways is not None:
            parts.append(f"\n[channel.{number}.recovery]\n")
            for feed, address in zip(ascii_uppercase, gateways.addresses, strict=False):
                parts.append(f'{feed} = "{address}"\n')
            parts.append(f"sender = {json.dumps(gateways.sender)}\n")
            parts.append(f"target = {json.dumps(gateways.target)}\n")
        for stream in STREAMS:
            parts.append(f"\n[channel.{number}.{stream.value}]\n")
            for line in config.lines:
                if (line.channel, line.stream) == (number, stream):
                    values = {
                        "address": str(line.address),
                        "interface": line.interface,
                        "source": line.source,
                    }
                    entries = ", ".join(f'{k} = "{v}"' for k, v in values.items() if v is not None)
                    parts.append(f"{line.feed} = {{ {entries} }}\n")
    return "".join(parts)


def _settings(channel: ChannelSettings) -> list[str]:
    usual = ChannelSettings(channel.number)
    found = []
    if channel.backup or BACKUP_FEED in channel.feeds:
        found.append(f"backup = {json.dumps(channel.backup)}\n")
    if channel.legacy is not None:
        found.append('protocol = "legacy"\n')
        found.append(f"platform = {json.dumps(channel.legacy.platform)}\n")
        found.append(f"market_depth = {channel.legacy.market_depth or 0}\n")
    for entry, name in _SPANS.items():
        if getattr(channel, name) != getattr(usual, name):
            found.append(f'{entry} = "{getattr(channel, name)}ns"\n')
    for name in _NUMBERS:
        if getattr(channel, name) != getattr(usual, name):
            found.append(f"{name} = {getattr(channel, name)}\n")
    return found
