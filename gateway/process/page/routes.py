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
    "password",
    TEXT,
    "The password: 10 to 256 characters. Without it one is drawn, and the answer tells it.",
)
_AFTER = Field(
    "after", COUNT, "The number with which the answer before ended.", least=0, most=2**53
)
_WAIT = Field(
    "wait_s", NUMBER, "The time to wait for something new, in seconds.", least=0, most=WAIT_S_MAX
)
_SEARCH = Field(
    "search", TEXT, "Attributes that all must hold, as in `rt=temperature ep=meter*`.", most=256
)
_PAGE = Field(
    "page", COUNT, "The number of the page, from 0; each page has 100 links.", least=0, most=10_000
)

_TYPE = Field(
    "type", TEXT, "The driver, by its word in `/drivers`.", is_needed=True, most=128, is_noted=True
)
_SENSOR = (
    _TYPE,
    Field(
        "name",
        TEXT,
        "The name of the sensor, where its driver gives none.",
        most=256,
        is_noted=True,
    ),
    Field("options", TABLE, "Further keys of its table, as `/drivers/{type}` tells them."),
)

_CONFIGURATION = (
    Field("set", LIST, "Keys with values, each as `tree.hello_s=1.0`.", is_noted=True),
    Field("unset", LIST, "Keys that go back to their defaults.", is_noted=True),
)

_UPLOAD = (
    Field(
        "section",
        TEXT,
        "The section of the configuration: mqtt, coap or console.",
        is_needed=True,
        most=16,
        is_noted=True,
    ),
    Field(
        "part",
        TEXT,
        "own: the section's key and certificate; authorities: the authorities that it trusts.",
        is_needed=True,
        most=16,
        is_noted=True,
    ),
    Field("data", TEXT, "The upload, PKCS#12 or PEM, in base64.", is_needed=True, most=60_000),
    Field("password", TEXT, "The password that opens the upload.", most=1_024),
    Field("add", FLAG, "Trust the authorities beside those of now.", is_noted=True),
)

ROUTES: Final = (
    ApiRoute("document", "GET", "/openapi.json", "Get this document.", "Document", is_open=True),
    ApiRoute(
        "me", "GET", "/me", "Tell who is asking, and what it may do here.", "Me", is_open=True
    ),
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
        "Tell if the user who asks can change its password here.",
        "OwnPassword",
    ),
    ApiRoute(
        "change_own_password",
        "POST",
        "/me/password",
        "Change one's own password; all sessions and connections by the old one end.",
        "Done",
        body=(
            Field("old", TEXT, "The password of now.", is_needed=True),
            Field("new", TEXT, "The new password: 10 to 256 characters.", is_needed=True),
        ),
        change="own password changed",
    ),
    ApiRoute("log_out", "POST", "/logout", "End the session of the cookie or token.", "Done"),
    ApiRoute(
        "overview",
        "GET",
        "/overview",
        "Get the state of this gateway, and what to do next.",
        "Overview",
    ),
    ApiRoute(
        "status",
        "GET",
        "/status",
        "Get the status record of this gateway (docs/monitoring.md).",
        "Status",
    ),
    ApiRoute("tree", "GET", "/tree", "Get the tree as its gateways tell it.", "Tree"),
    ApiRoute("members", "GET", "/members", "List the gateways of the fleet.", "Members"),
    ApiRoute(
        "forget_member",
        "DELETE",
        "/members/{id}",
        "Take a gateway that will not come back out of the fleet's records.",
        "Done",
        change="member taken out",
    ),
    ApiRoute(
        "clients",
        "GET",
        "/clients",
        "List clients of the broker, 200 at a time.",
        "Clients",
        query=(Field("after", TEXT, "The identifier behind which the list begins."),),
    ),
    ApiRoute(
        "client", "GET", "/clients/{id}", "Get one client with its queue and its filters.", "Client"
    ),
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
        "List retained messages on topics that a filter matches.",
        "Retained",
        query=(Field("filter", TEXT, "A topic filter.", is_needed=True),),
    ),
    ApiRoute(
        "messages",
        "GET",
        "/messages",
        "Get messages on topics that a filter matches, as they come.",
        "Messages",
        query=(Field("filter", TEXT, "A topic filter.", is_needed=True), _AFTER, _WAIT),
    ),
    ApiRoute(
        "publish",
        "POST",
        "/messages",
        "Publish a message with QoS 1. It is on its way into the log when the answer comes.",
        "Done",
        body=(
            Field("topic", TEXT, "The topic of the message.", is_needed=True, is_noted=True),
            Field(
                "payload",
                TEXT,
                "The payload of the message, in UTF-8.",
                is_needed=True,
                most=32_768,
            ),
            Field("retain", FLAG, "Let the broker retain the message.", is_noted=True),
        ),
        change="message published",
    ),
    ApiRoute(
        "sensors",
        "GET",
        "/sensors",
        "List sensors with their values and their last hour.",
        "Sensors",
        query=(Field("hour", COUNT, "0 leaves the last hour out.", least=0, most=1),),
    ),
    ApiRoute(
        "set_sensor",
        "PUT",
        "/sensors/{name}",
        "Set an actuator.",
        "Done",
        body=(
            Field("value", TEXT, "The value as text, such as `1`.", is_needed=True, is_noted=True),
        ),
        change="actuator set",
    ),
    ApiRoute("drivers", "GET", "/drivers", "List drivers that a sensor may have.", "Drivers"),
    ApiRoute("driver", "GET", "/drivers/{type}", "Get all keys of a driver's table.", "Driver"),
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
        "Add a sensor, which stays after a restart.",
        "SensorNames",
        body=_SENSOR,
        change="sensor added",
    ),
    ApiRoute(
        "sensor_table",
        "GET",
        "/sensors/{name}/table",
        "Get the table of a sensor that was added.",
        "SensorTable",
    ),
    ApiRoute(
        "change_sensor",
        "PUT",
        "/sensors/{name}/table",
        "Replace the table of a sensor that was added.",
        "SensorNames",
        body=(
            _TYPE,
            Field("name", TEXT, "The name of the sensor from now on.", most=256),
            _SENSOR[-1],
        ),
        change="sensor changed",
    ),
    ApiRoute(
        "remove_sensor",
        "DELETE",
        "/sensors/{name}",
        "Remove a sensor that was added, with all that its table made.",
        "SensorNames",
        change="sensor removed",
    ),
    ApiRoute(
        "endpoints",
        "GET",
        "/directory/endpoints",
        "List devices that are registered in the Resource Directory.",
        "Links",
        query=(_SEARCH, _PAGE),
    ),
    ApiRoute(
        "resources",
        "GET",
        "/directory/resources",
        "List resources of registered devices.",
        "Links",
        query=(_SEARCH, _PAGE),
    ),
    ApiRoute(
        "remove_registration",
        "DELETE",
        "/directory/registrations/{id}",
        "Remove a registration, such as `7` of `/rd/7`.",
        "Done",
        change="registration removed",
    ),
    ApiRoute(
        "device_keys",
        "GET",
        "/device-keys",
        "List identities that have a key for CoAP over DTLS; nobody is told the keys.",
        "DeviceKeys",
    ),
    ApiRoute(
        "make_device_key",
        "POST",
        "/device-keys",
        "Make a key for a device. Only this answer tells it.",
        "DeviceKey",
        body=(
            Field(
                "identity",
                TEXT,
                "The identity of the device.",
                is_needed=True,
                most=128,
                is_noted=True,
            ),
        ),
        change="device key made",
    ),
    ApiRoute(
        "revoke_device_key",
        "DELETE",
        "/device-keys/{identity}",
        "Revoke the key of an identity.",
        "Done",
        change="device key revoked",
    ),
    ApiRoute("alerts", "GET", "/alerts", "List alerts, silences and ways out.", "Alerts"),
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
                "The order: ack, close, silence, unsilence or test.",
                is_needed=True,
                is_noted=True,
            ),
            Field("alert", TEXT, "With ack and close: the alert.", is_noted=True),
            Field("note", TEXT, "With ack and silence: a note for others."),
            Field(
                "for_s",
                NUMBER,
                "With silence: its length in seconds.",
                least=0,
                most=1e9,
                is_noted=True,
            ),
            Field("match", TABLE, "With silence: patterns by field."),
            Field(
                "begins_us",
                COUNT,
                "With silence: its start, in microseconds since 1970.",
                least=0,
                most=2**62,
            ),
            Field(
                "number",
                COUNT,
                "With unsilence: the number of the silence.",
                least=0,
                most=2**53,
                is_noted=True,
            ),
            Field("ways", LIST, "With test: the ways out to try; all where it is absent."),
        ),
        change="order about alerts",
    ),
    ApiRoute(
        "log",
        "GET",
        "/log",
        "Get the last lines of the log, and further ones as they come.",
        "Log",
        query=(
            _AFTER,
            _WAIT,
            Field("level", TEXT, "The lowest level: DEBUG, INFO, WARNING or ERROR.", most=8),
            Field("text", TEXT, "A text that each line must hold.", most=200),
        ),
    ),
    ApiRoute("audit", "GET", "/audit", "Get the audit trail, the newest change first.", "Audit"),
    ApiRoute(
        "support",
        "GET",
        "/support",
        "Download a bundle for support: status, log and configuration, without secrets.",
        "application/gzip",
    ),
    ApiRoute("policy", "GET", "/policy", "Get the roles, their rules and who has them.", "Policy"),
    ApiRoute(
        "explain",
        "GET",
        "/policy/explain",
        "Explain if somebody may do something, and by which rule.",
        "Explanation",
        query=(
            Field(
                "who",
                TEXT,
                "A principal, as `psk:alice`; where it is absent, the user who asks.",
                most=300,
            ),
            Field("action", TEXT, "The action, as `PUT /sensors/valve`.", is_needed=True),
        ),
    ),
    ApiRoute(
        "users",
        "GET",
        "/users",
        "List users with their roles, here and over MQTT; no password or hash.",
        "Users",
    ),
    ApiRoute(
        "add_user",
        "POST",
        "/users",
        "Add a user. Only this answer tells a password that was drawn.",
        "UserPassword",
        body=(
            Field("user", TEXT, "The name of the user.", is_needed=True, most=256, is_noted=True),
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
        "Remove a user; its sessions and connections end.",
        "Done",
        change="user removed",
    ),
    ApiRoute(
        "configuration",
        "GET",
        "/configuration",
        "List each key of the configuration: its value, its source and its use.",
        "Configuration",
    ),
    ApiRoute(
        "configuration_trial",
        "GET",
        "/configuration/trial",
        "Get the outcome of the last change.",
        "ConfigurationTrial",
    ),
    ApiRoute(
        "check_configuration",
        "POST",
        "/configuration/checks",
        "Check a change and tell what it would do; nothing is written.",
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
                "The digest of the file that was seen.",
                is_needed=True,
                most=64,
            ),
            Field(
                "within_s",
                NUMBER,
                "The time in which the gateway has to come up, in seconds.",
                least=LEAST_WITHIN_S,
                most=MOST_WITHIN_S,
                is_noted=True,
            ),
        ),
        change="configuration changed on trial",
    ),
    ApiRoute("keys", "GET", "/keys", "List the contents of key stores and trust stores.", "Keys"),
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
        "Replace a section's key and certificate, or the authorities that it trusts, by an upload.",
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
        body=(
            Field(
                "addresses", LIST, "Addresses at which clients reach the gateway.", is_noted=True
            ),
        ),
        change="key made and certificate requested",
    ),
    ApiRoute(
        "key_request",
        "GET",
        "/keys/request",
        "Get the open request, in PEM.",
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
