"""The paths of the REST API: what each takes, and what it is for. Pure.

This table is the API: requests are matched and checked by it, and `openapi` tells it to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.process.config_trials import LEAST_WITHIN_S, MOST_WITHIN_S
from gateway.process.page.fields import COUNT, FLAG, LIST, NUMBER, TABLE, TEXT, Field
from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

PREFIX: Final = "/api/v1"
WAIT_S_MAX: Final = 25.0
"""So long a request may wait for news."""
NAME_BYTES_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A path with a method.

    Attributes:
        operation: its name.
        method: of HTTP.
        path: behind `PREFIX`; a segment in braces stands for any, and is a name of the request.
        what: it does, for people.
        answer: the name of its schema in `openapi`; a media type where it is no JSON.
        query: parameters.
        body: fields of the body.
        change: what the audit trail calls it; empty where it changes nothing.
        is_open: it needs no log-in.

    """

    operation: str
    method: str
    path: str
    what: str
    answer: str
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
    change: str = ""
    is_open: bool = False

    def matches(self, segments: tuple[str, ...]) -> bool:
        """Return whether segments of a path are this one's."""
        own = self.path[1:].split("/")
        return len(own) == len(segments) and all(
            wanted[0] == "{" or wanted == given for wanted, given in zip(own, segments, strict=True)
        )

    def names(self, segments: tuple[str, ...]) -> dict[str, str]:
        """Return what the segments in braces stand for.

        Raises:
            ApiError: one is no text, or too long.

        """
        own = self.path[1:].split("/")
        return {
            wanted[1:-1]: _decoded(wanted[1:-1], given)
            for wanted, given in zip(own, segments, strict=True)
            if wanted[0] == "{"
        }


def _decoded(name: str, segment: str) -> str:
    try:
        found = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: is not UTF-8") from error
    if not found or len(found) > NAME_BYTES_MAX:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: is empty or too long")
    return found


_USER = Field("user", TEXT, "A user of `access.password_file`.", is_needed=True, most=256)
_PASSWORD = Field("password", TEXT, "The user's password.", is_needed=True)
_NEW_PASSWORD = Field(
    "password", TEXT, "10 to 256 characters; without it one is drawn, and told in the answer."
)
_AFTER = Field("after", COUNT, "The number that the answer before ended with.", least=0, most=2**53)
_WAIT = Field(
    "wait_s", NUMBER, "So long to wait for something new, in seconds.", least=0, most=WAIT_S_MAX
)
_SEARCH = Field(
    "search", TEXT, "Attributes that all must hold, as in `rt=temperature ep=meter*`.", most=256
)
_PAGE = Field("page", COUNT, "Which page, from 0; each has 100 links.", least=0, most=10_000)

_TYPE = Field(
    "type", TEXT, "A driver of `/drivers`, by its word.", is_needed=True, most=128, is_noted=True
)
_SENSOR = (
    _TYPE,
    Field("name", TEXT, "The sensor's, where its driver has none.", most=256, is_noted=True),
    Field("options", TABLE, "Further keys of its table, as `/drivers/{type}` tells them."),
)

_CONFIGURATION = (
    Field("set", LIST, "Keys with values, each as `tree.hello_s=1.0`.", is_noted=True),
    Field("unset", LIST, "Keys that go back to their defaults.", is_noted=True),
)

_UPLOAD = (
    Field("section", TEXT, "mqtt, coap or console.", is_needed=True, most=16, is_noted=True),
    Field(
        "part",
        TEXT,
        "own: its key and certificate; authorities: whom it trusts.",
        is_needed=True,
        most=16,
        is_noted=True,
    ),
    Field("data", TEXT, "PKCS#12 or PEM, in base64.", is_needed=True, most=60_000),
    Field("password", TEXT, "That opens it.", most=1_024),
    Field("add", FLAG, "Authorities are trusted beside those of now.", is_noted=True),
)

ROUTES: Final = (
    ApiRoute("document", "GET", "/openapi.json", "This document.", "Document", is_open=True),
    ApiRoute("me", "GET", "/me", "Who asks, and what it may do here.", "Me", is_open=True),
    ApiRoute(
        "log_in",
        "POST",
        "/login",
        "Log a browser in: the answer sets a cookie.",
        "LoggedIn",
        body=(_USER, _PASSWORD),
        is_open=True,
    ),
    ApiRoute(
        "make_token",
        "POST",
        "/tokens",
        "Get a token for `Authorization: Bearer`, for scripts.",
        "Token",
        body=(_USER, _PASSWORD),
        is_open=True,
    ),
    ApiRoute(
        "own_password",
        "GET",
        "/me/password",
        "Whether who asks can change its password here.",
        "OwnPassword",
    ),
    ApiRoute(
        "change_own_password",
        "POST",
        "/me/password",
        "Have another password; all sessions and connections by the old one end.",
        "Done",
        body=(
            Field("old", TEXT, "The password of now.", is_needed=True),
            Field("new", TEXT, "10 to 256 characters.", is_needed=True),
        ),
        change="own password changed",
    ),
    ApiRoute("log_out", "POST", "/logout", "End the session of the cookie or token.", "Done"),
    ApiRoute(
        "overview", "GET", "/overview", "How this gateway is, and what to do next.", "Overview"
    ),
    ApiRoute("status", "GET", "/status", "What it is and does (docs/monitoring.md).", "Status"),
    ApiRoute("tree", "GET", "/tree", "The tree as its gateways tell it.", "Tree"),
    ApiRoute("members", "GET", "/members", "The gateways of the fleet.", "Members"),
    ApiRoute(
        "forget_member",
        "DELETE",
        "/members/{id}",
        "Take a gateway out of the fleet's records that will not come back.",
        "Done",
        change="member taken out",
    ),
    ApiRoute(
        "clients",
        "GET",
        "/clients",
        "Clients of the broker, 200 at a time.",
        "Clients",
        query=(Field("after", TEXT, "Begin behind this identifier."),),
    ),
    ApiRoute("client", "GET", "/clients/{id}", "One client: its queue, its filters.", "Client"),
    ApiRoute(
        "disconnect",
        "POST",
        "/clients/{id}/disconnect",
        "Close a client's connection.",
        "Kicked",
        body=(Field("forget", FLAG, "End its session too.", is_noted=True),),
        change="client disconnected",
    ),
    ApiRoute(
        "retained",
        "GET",
        "/retained",
        "What is retained on topics that a filter matches.",
        "Retained",
        query=(Field("filter", TEXT, "A topic filter.", is_needed=True),),
    ),
    ApiRoute(
        "messages",
        "GET",
        "/messages",
        "Messages on topics that a filter matches, as they come.",
        "Messages",
        query=(Field("filter", TEXT, "A topic filter.", is_needed=True), _AFTER, _WAIT),
    ),
    ApiRoute(
        "publish",
        "POST",
        "/messages",
        "Publish a message with QoS 1; it is on its way into the log when this answers.",
        "Done",
        body=(
            Field("topic", TEXT, "Its topic.", is_needed=True, is_noted=True),
            Field("payload", TEXT, "Its payload, in UTF-8.", is_needed=True, most=32_768),
            Field("retain", FLAG, "Whether it is retained.", is_noted=True),
        ),
        change="message published",
    ),
    ApiRoute(
        "sensors",
        "GET",
        "/sensors",
        "Sensors, their values, their last hour.",
        "Sensors",
        query=(Field("hour", COUNT, "0 leaves the last hour out.", least=0, most=1),),
    ),
    ApiRoute(
        "set_sensor",
        "PUT",
        "/sensors/{name}",
        "Set an actuator.",
        "Done",
        body=(Field("value", TEXT, "As text, such as `1`.", is_needed=True, is_noted=True),),
        change="actuator set",
    ),
    ApiRoute("drivers", "GET", "/drivers", "Drivers that a sensor may have.", "Drivers"),
    ApiRoute("driver", "GET", "/drivers/{type}", "All keys of a driver's table.", "Driver"),
    ApiRoute(
        "try_sensor",
        "POST",
        "/sensor-trials",
        "Build a sensor and read it once, in ten seconds; nothing of it is kept.",
        "Tried",
        body=_SENSOR,
        change="sensor tried",
    ),
    ApiRoute(
        "add_sensor",
        "POST",
        "/sensors",
        "Have one more sensor, after a restart too.",
        "SensorNames",
        body=_SENSOR,
        change="sensor added",
    ),
    ApiRoute(
        "sensor_table",
        "GET",
        "/sensors/{name}/table",
        "The table of a sensor that was added.",
        "SensorTable",
    ),
    ApiRoute(
        "change_sensor",
        "PUT",
        "/sensors/{name}/table",
        "Have a sensor that was added by another table.",
        "SensorNames",
        body=(
            _TYPE,
            Field("name", TEXT, "The sensor's from now on.", most=256),
            _SENSOR[-1],
        ),
        change="sensor changed",
    ),
    ApiRoute(
        "remove_sensor",
        "DELETE",
        "/sensors/{name}",
        "Have a sensor no more that was added, nor what else its table made.",
        "SensorNames",
        change="sensor removed",
    ),
    ApiRoute(
        "endpoints",
        "GET",
        "/directory/endpoints",
        "Devices that are registered in the Resource Directory.",
        "Links",
        query=(_SEARCH, _PAGE),
    ),
    ApiRoute(
        "resources",
        "GET",
        "/directory/resources",
        "Resources of devices that are registered.",
        "Links",
        query=(_SEARCH, _PAGE),
    ),
    ApiRoute(
        "remove_registration",
        "DELETE",
        "/directory/registrations/{id}",
        "Take a device's registration out, such as `7` of `/rd/7`.",
        "Done",
        change="registration removed",
    ),
    ApiRoute(
        "device_keys",
        "GET",
        "/device-keys",
        "Who has a key for CoAP over DTLS; the keys are told to nobody.",
        "DeviceKeys",
    ),
    ApiRoute(
        "make_device_key",
        "POST",
        "/device-keys",
        "Make a key for a device, which is told this once.",
        "DeviceKey",
        body=(Field("identity", TEXT, "The device's.", is_needed=True, most=128, is_noted=True),),
        change="device key made",
    ),
    ApiRoute(
        "revoke_device_key",
        "DELETE",
        "/device-keys/{identity}",
        "Let nobody in by the key of an identity any more.",
        "Done",
        change="device key revoked",
    ),
    ApiRoute("alerts", "GET", "/alerts", "What is wrong, silences and ways out.", "Alerts"),
    ApiRoute(
        "order",
        "POST",
        "/alerts",
        "Acknowledge, close, silence, unsilence or test, as `hedgerow alerts` does.",
        "Ordered",
        body=(
            Field(
                "do",
                TEXT,
                "ack, close, silence, unsilence or test.",
                is_needed=True,
                is_noted=True,
            ),
            Field("alert", TEXT, "With ack and close: which.", is_noted=True),
            Field("note", TEXT, "With ack and silence: what to say of it."),
            Field("for_s", NUMBER, "With silence: how long.", least=0, most=1e9, is_noted=True),
            Field("match", TABLE, "With silence: patterns by field."),
            Field("begins_us", COUNT, "With silence: from when on.", least=0, most=2**62),
            Field("number", COUNT, "With unsilence: which.", least=0, most=2**53, is_noted=True),
            Field("ways", LIST, "With test: which ways out; all without it."),
        ),
        change="order about alerts",
    ),
    ApiRoute(
        "log",
        "GET",
        "/log",
        "The last lines of the log, and further ones as they come.",
        "Log",
        query=(
            _AFTER,
            _WAIT,
            Field("level", TEXT, "The least: DEBUG, INFO, WARNING or ERROR.", most=8),
            Field("text", TEXT, "What a line has to hold.", most=200),
        ),
    ),
    ApiRoute("audit", "GET", "/audit", "The audit trail, the newest first.", "Audit"),
    ApiRoute(
        "support",
        "GET",
        "/support",
        "A bundle for whoever helps: status, log, configuration; without secrets.",
        "application/gzip",
    ),
    ApiRoute("policy", "GET", "/policy", "Roles, rules and who has which.", "Policy"),
    ApiRoute(
        "explain",
        "GET",
        "/policy/explain",
        "Whether somebody may do something, and by which rule.",
        "Explanation",
        query=(
            Field("who", TEXT, "A principal, as `psk:alice`; who asks without it.", most=300),
            Field("action", TEXT, "As `PUT /sensors/valve`.", is_needed=True),
        ),
    ),
    ApiRoute(
        "users",
        "GET",
        "/users",
        "Who has a password, here and for MQTT, and which roles; no password and no hash.",
        "Users",
    ),
    ApiRoute(
        "add_user",
        "POST",
        "/users",
        "Let one more user in; a password that is drawn here is told this once.",
        "UserPassword",
        body=(
            Field("user", TEXT, "The name.", is_needed=True, most=256, is_noted=True),
            _NEW_PASSWORD,
        ),
        change="user added",
    ),
    ApiRoute(
        "set_password",
        "PUT",
        "/users/{user}/password",
        "Give a user another password; all sessions and connections by the old one end.",
        "UserPassword",
        body=(_NEW_PASSWORD,),
        change="password of a user set",
    ),
    ApiRoute(
        "remove_user",
        "DELETE",
        "/users/{user}",
        "Let a user in no more; its sessions and connections end.",
        "Done",
        change="user removed",
    ),
    ApiRoute(
        "configuration",
        "GET",
        "/configuration",
        "Each key of the configuration: its value, where that comes from, what it is for.",
        "Configuration",
    ),
    ApiRoute(
        "configuration_trial",
        "GET",
        "/configuration/trial",
        "What came of the last change.",
        "ConfigurationTrial",
    ),
    ApiRoute(
        "check_configuration",
        "POST",
        "/configuration/checks",
        "What a change would do; nothing is written.",
        "CheckedConfiguration",
        body=_CONFIGURATION,
    ),
    ApiRoute(
        "change_configuration",
        "POST",
        "/configuration",
        "Change keys on trial: what does not come up goes back by itself.",
        "ChangedConfiguration",
        body=(
            *_CONFIGURATION,
            Field(
                "if_unchanged",
                TEXT,
                "The digest of what was seen.",
                is_needed=True,
                most=64,
            ),
            Field(
                "within_s",
                NUMBER,
                "In which the gateway has to come up, in seconds.",
                least=LEAST_WITHIN_S,
                most=MOST_WITHIN_S,
                is_noted=True,
            ),
        ),
        change="configuration changed on trial",
    ),
    ApiRoute("keys", "GET", "/keys", "What key stores and trust stores hold.", "Keys"),
    ApiRoute(
        "check_keys",
        "POST",
        "/keys/checks",
        "Open an upload and say what it would replace; nothing is written.",
        "CheckedKeys",
        body=_UPLOAD,
    ),
    ApiRoute(
        "import_keys",
        "POST",
        "/keys",
        "Have an upload in the place of a section's key and certificate, or of whom it trusts.",
        "ImportedKeys",
        body=_UPLOAD,
        change="certificates brought in",
    ),
    ApiRoute(
        "make_key_request",
        "POST",
        "/keys/request",
        "Make a key that waits on the gateway, and a request for its certificate (PKCS#10).",
        "KeyRequest",
        body=(Field("addresses", LIST, "Where clients reach the gateway.", is_noted=True),),
        change="key made and certificate requested",
    ),
    ApiRoute(
        "key_request",
        "GET",
        "/keys/request",
        "The request that is open, in PEM.",
        "application/pkcs10",
    ),
    ApiRoute(
        "forget_key_request",
        "DELETE",
        "/keys/request",
        "Remove the key that waits for its certificate.",
        "Done",
        change="key request forgotten",
    ),
    ApiRoute(
        "renew_certificate",
        "POST",
        "/keys/renew",
        "Ask the enrolment service for a new certificate now.",
        "RenewedKeys",
        change="certificate renewed",
    ),
)
"""All of them."""


def find(method: str, path: str) -> tuple[ApiRoute, Mapping[str, str]]:
    """Return the route of a request, and the names in its path.

    Raises:
        ApiError: there is none.

    """
    segments = tuple(path.removeprefix(PREFIX)[1:].split("/"))
    at = [route for route in ROUTES if route.matches(segments)]
    if not path.startswith(f"{PREFIX}/") or not at:
        raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")
    for route in at:
        if route.method == method:
            return route, route.names(segments)
    known = ", ".join(route.method for route in at)
    raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{method}: only {known}")
