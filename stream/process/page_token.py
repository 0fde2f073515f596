"""The token required to listen on addresses that other hosts reach."""

from __future__ import annotations

from typing import Final

from epicenter.rules.errors import ConfigError
from epicenter.sinks.net.loopback import is_loopback
from epicenter.stream.settings import Settings

MIN_TOKEN_CHARACTERS: Final = 16
HOW_TO_MAKE: Final = "make one with `openssl rand -hex 32`"


def checked_token(settings: Settings, what: str) -> str:
    """The token of `page` or `web`; empty on the loopback without a token.

    Raises:
        ConfigError: other hosts reach the address and there is no token, or the token is weak.
    """
    host, token = getattr(settings, f"{what}_host"), getattr(settings, f"{what}_token").get_secret_value()
    if not token and not is_loopback(host):
        raise ConfigError([f"{what}_host: {host}: others reach it, so it needs a {what}_token: {HOW_TO_MAKE}"])
    if token and (len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token):
        least = f"{MIN_TOKEN_CHARACTERS} printable ASCII characters at least, without spaces"
        raise ConfigError([f"{what}_token: write {least}: {HOW_TO_MAKE}"])
    return str(token)
