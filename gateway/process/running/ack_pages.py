"""Serves the links in mails by which an alert is taken on."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from alerts.ack_link import PATH, AckLinkError, AckLinks
from alerts.desk import AlertNotFoundError
from gateway.process.console import ack_form
from gateway.process.console.pages import HttpRequest, Page
from gateway.process.running.alert_watch import AlertWatch

WHO: Final = "link in a mail"
"""Takes an alert on: a link says nobody's name."""


class AckPages:
    """Answers what is asked below `alerts.ack_link.PATH`.

    Args:
        links: of this gateway.
        watch: has the alerts.

    """

    def __init__(self, links: AckLinks, watch: AlertWatch) -> None:
        self._links = links
        self._watch = watch

    async def page(self, request: HttpRequest) -> Page:
        """Return the form; for POST take the alert on, once."""
        try:
            alert = self._watch.of_link(self._links, request.path.removeprefix(PATH))
            if alert.taken_on is not None:
                return ack_form.said(f"It is taken on already, by {alert.taken_on.who}.")
            if request.method != "POST":
                return ack_form.form(alert.raised)
            order = json.dumps({"do": "ack", "alert": alert.raised.alert})
            await self._watch.order(order.encode(), WHO)
        except AckLinkError as error:
            return ack_form.said(f"{error}.".capitalize(), HTTPStatus.NOT_FOUND)
        except AlertNotFoundError as error:
            return ack_form.said(f"{error}.".capitalize(), HTTPStatus.GONE)
        return ack_form.said("You have taken it on: nobody is reminded of it any more.")
