"""Incidents as the engine makes them."""

from __future__ import annotations

from epicenter.rules.correlate.lifecycle import RESOLVE_AFTER_NS
from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from tests.support.logs import at, the_rules
from tests.support.signals import an_xid


def opened_and_resolved(node: str = "n1") -> tuple[Incident, Incident]:
    """A GPU falls off the bus, and nothing more happens: the incident when it opens, and when it is over."""
    engine = Engine(the_rules())
    engine.add([an_xid(79, 100, node)])
    (opened,) = engine.advance(at(100))
    (resolved,) = engine.advance(at(100) + RESOLVE_AFTER_NS)
    return opened, resolved
