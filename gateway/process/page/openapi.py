"""The document of the REST API (OpenAPI 3.1), made of its routes; loaded only for who reads it.

https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from gateway.base import build
from gateway.process.page.fields import TEXT, Field
from gateway.process.page.routes import PREFIX, ROUTES, ApiRoute

_NAMES: Final = re.compile(r"\{(\w+)\}")

Schema = dict[str, Any]


def _object(needed: str = "", **properties: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if needed:
        found["required"] = needed.split()
    return found


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _or_null(kind: str) -> Schema:
    return {"type": [kind, "null"]}


def _by_name(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_FLAG: Final[Schema] = {"type": "boolean"}
_ANY: Final[Schema] = {}
_TEXTS: Final = _list(_TEXT)
_MESSAGE: Final = _object(
    "topic payload form bytes qos retain",
    topic=_TEXT,
    payload={"type": "string", "description": "Its first 2,048 bytes, as `form` says."},
    form={"enum": ["text", "hex"]},
    bytes=_COUNT,
    qos={"enum": [0, 1, 2]},
    retain=_FLAG,
    number=_COUNT,
    time_ms=_COUNT,
)
_RULE: Final = _object(
    "effect who verb target at place",
    effect={"enum": ["allow", "deny", "conceal"]},
    who=_TEXT,
    verb=_TEXT,
    target=_TEXT,
    at=_TEXTS,
    place=_TEXT,
)
_CLIENT: Final = _object(
    "id user address protocol is_connected since_s subscriptions queued inflight dropped",
    id=_TEXT,
    user=_or_null("string"),
    address=_TEXT,
    protocol=_TEXT,
    is_connected=_FLAG,
    since_s=_NUMBER,
    subscriptions=_COUNT,
    queued=_COUNT,
    inflight=_COUNT,
    dropped=_COUNT,
)
_FILTER: Final = _object("filter qos", filter=_TEXT, qos=_COUNT)
_STATUS: Final = {
    **_object(
        "id domain group version up_s mqtt_clients broker neighbours root",
        id=_TEXT,
        domain=_TEXT,
        group=_TEXT,
        version=_TEXT,
        up_s=_NUMBER,
        mqtt_clients=_COUNT,
        broker={"type": "object"},
        neighbours=_list({"type": "object"}),
        root=_TEXT,
        parent=_or_null("string"),
    ),
    "description": "All of it: docs/monitoring.md.",
}
_ALERT: Final = _object(
    "alert rule gateway severity since_us",
    alert=_TEXT,
    rule=_TEXT,
    gateway=_TEXT,
    severity=_TEXT,
    since_us=_COUNT,
)

_TRIAL: Final[Schema] = {
    **_object(
        "id state why",
        id=_TEXT,
        state={"enum": ["waiting", "trying", "confirmed", "returned"]},
        why=_TEXT,
        within_s=_NUMBER,
    ),
    "type": ["object", "null"],
    "description": "The outcome of the last change; with `within_s` while the file is on trial.",
}

_HELD: Final = _list(_object("name ends serial", name=_TEXT, ends=_TEXT, serial=_TEXT))
_UPLOADED: Final = _object(
    "has_key certificates authorities writes",
    has_key=_FLAG,
    certificates=_HELD,
    authorities=_HELD,
    writes={**_TEXTS, "description": "Files that are replaced."},
)

_OTHERWISE: Final[dict[str, Schema]] = {
    "why_not": {
        "type": "string",
        "description": "The reason why it can't be changed here; empty if it can.",
    },
    "command": {"type": "string", "description": "The command that changes it on the machine."},
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": _object("error", error={"type": "string", "description": "One line, for people."}),
    "Done": _object(),
    "Document": {"type": "object"},
    "Me": _object(
        "gateway user is_in asks",
        gateway=_TEXT,
        user=_or_null("string"),
        is_in=_FLAG,
        asks={"type": "boolean", "description": "Visitors have to log in."},
        who={"type": "string", "description": "The principal, as a policy names it."},
        roles=_TEXTS,
        csrf={"type": "string", "description": "The value of `X-Hedgerow-CSRF`."},
        may=_by_name(_FLAG),
    ),
    "LoggedIn": _object("csrf", csrf=_TEXT),
    "Token": _object("token lasts_s", token=_TEXT, lasts_s=_NUMBER),
    "Overview": _object(
        "now_ms status machine findings",
        now_ms=_COUNT,
        status=_STATUS,
        machine=_object(
            "disk_free_bytes disk_total_bytes temperature_cel clock_is_set",
            disk_free_bytes=_or_null("integer"),
            disk_total_bytes=_or_null("integer"),
            temperature_cel=_or_null("number"),
            clock_is_set=_or_null("boolean"),
        ),
        findings=_list(
            _object(
                "weight about what advice",
                weight={"enum": ["wrong", "look"]},
                about=_TEXT,
                what=_TEXT,
                advice=_TEXT,
            )
        ),
    ),
    "Status": _STATUS,
    "Tree": _object(
        "roots gateways collectors silent",
        roots=_TEXTS,
        gateways=_by_name(_STATUS),
        collectors=_by_name(_TEXTS),
        silent=_by_name(_TEXT),
    ),
    "Members": _object("members", members=_list(_object("id", id=_TEXT))),
    "Clients": _object(
        "count has_more clients", count=_COUNT, has_more=_FLAG, clients=_list(_CLIENT)
    ),
    "Client": {"allOf": [_CLIENT, _object("filters queued_bytes", filters=_list(_FILTER))]},
    "Kicked": _object("was_connected is_forgotten", was_connected=_FLAG, is_forgotten=_FLAG),
    "Retained": _object("messages has_more", messages=_list(_MESSAGE), has_more=_FLAG),
    "Messages": _object(
        "messages after left_out", messages=_list(_MESSAGE), after=_COUNT, left_out=_COUNT
    ),
    "Sensors": _object(
        "sensors",
        sensors=_list(
            _object(
                "name type kind unit interval_s state is_actuator is_added may_set values",
                name=_TEXT,
                type=_TEXT,
                kind=_TEXT,
                unit=_TEXT,
                interval_s=_NUMBER,
                state={"enum": ["good", "bad", "-"]},
                is_actuator=_FLAG,
                is_added={"type": "boolean", "description": "It can be changed and removed."},
                may_set=_FLAG,
                values=_list(
                    _object(
                        "name value unit quality time_ms",
                        name=_TEXT,
                        value=_ANY,
                        unit=_TEXT,
                        quality=_TEXT,
                        time_ms=_COUNT,
                        hour={**_list(_or_null("number")), "minItems": 60, "maxItems": 60},
                    )
                ),
            )
        ),
    ),
    "Drivers": _object(
        "drivers",
        drivers=_list(
            _object("type text is_installed", type=_TEXT, text=_TEXT, is_installed=_FLAG)
        ),
    ),
    "Driver": _object(
        "type text parameters",
        type=_TEXT,
        text=_TEXT,
        parameters=_list(
            _object(
                "name kind text default is_needed unit range choices only_in_file",
                name=_TEXT,
                kind={"enum": ["text", "whole", "number", "flag", "choice", "table", "any"]},
                text=_TEXT,
                default=_ANY,
                is_needed=_FLAG,
                unit=_or_null("string"),
                range={"type": ["array", "null"], "items": _NUMBER},
                choices={"type": ["array", "null"], "items": _TEXT},
                only_in_file={"type": "boolean", "description": "A request may not say it."},
            )
        ),
    ),
    "Tried": _object(
        "values left_out",
        values=_list(
            _object(
                "name value unit quality why",
                name=_TEXT,
                value=_ANY,
                unit=_TEXT,
                quality=_TEXT,
                why={"type": "string", "description": "The reason why there is no value."},
            )
        ),
        left_out=_COUNT,
    ),
    "SensorNames": _object("names", names=_TEXTS),
    "SensorTable": _object("table", table={"type": "object"}),
    "Links": _object(
        "links page has_more",
        links=_list(_object("href attributes", href=_TEXT, attributes=_by_name(_TEXT))),
        page=_COUNT,
        has_more=_FLAG,
    ),
    "DeviceKeys": _object(
        "uri devices",
        uri={"type": "string", "description": "The address for devices; empty where DTLS is off."},
        devices=_list(
            _object(
                "identity is_made roles",
                identity=_TEXT,
                is_made={
                    "type": "boolean",
                    "description": "The key was made here; others stand in `coap.psk_file`.",
                },
                roles=_TEXTS,
            )
        ),
    ),
    "DeviceKey": _object(
        "host port identity key text svg",
        host=_TEXT,
        port=_COUNT,
        identity=_TEXT,
        key={"type": "string", "description": "The key, in hexadecimal."},
        text={"type": "string", "description": "Host, port, identity and key as JSON."},
        svg={"type": "string", "description": "That text as a QR code, drawn as SVG."},
    ),
    "Alerts": _object(
        "alerts cleared silences ways rules",
        alerts=_list(_ALERT),
        cleared=_list({"type": "object"}),
        silences=_list({"type": "object"}),
        ways=_by_name({"type": "object"}),
        rules=_by_name({"type": "object"}),
    ),
    "Ordered": {"type": "object", "description": "The outcome; its fields depend on the order."},
    "Log": _object(
        "lines after",
        lines=_list(
            _object(
                "number time_ms level from text",
                number=_COUNT,
                time_ms=_COUNT,
                level=_TEXT,
                text=_TEXT,
                **{"from": _TEXT},
            )
        ),
        after=_COUNT,
    ),
    "Audit": _object(
        "changes",
        changes=_list(
            _object(
                "time_s who what of", time_s=_NUMBER, who=_TEXT, what=_TEXT, of={"type": "object"}
            )
        ),
    ),
    "Policy": _object(
        "roles rules assigned vouched default_roles public",
        roles=_list(
            _object("name includes rules", name=_TEXT, includes=_TEXTS, rules=_list(_RULE))
        ),
        rules=_list(_RULE),
        assigned=_by_name(_TEXTS),
        vouched=_by_name(_TEXTS),
        default_roles=_TEXTS,
        public=_TEXTS,
    ),
    "OwnPassword": _object("why_not command", **_OTHERWISE),
    "Users": _object(
        "file why_not command users",
        file={
            **_or_null("string"),
            "description": "The file that has them; null where nobody logs in.",
        },
        **_OTHERWISE,
        users=_list(
            _object(
                "name has_password roles mqtt_roles changed_s may_change why_not",
                name=_TEXT,
                has_password={
                    "type": "boolean",
                    "description": "The user has a password; else the policy alone names it.",
                },
                roles={**_TEXTS, "description": "Roles at this page."},
                mqtt_roles={**_TEXTS, "description": "Roles over MQTT."},
                changed_s={
                    **_or_null("number"),
                    "description": "The time at which its password was set, in seconds since "
                    "1970; null where the audit trail does not tell.",
                },
                may_change={
                    "type": "boolean",
                    "description": "The user who asks may set its password.",
                },
                why_not={"type": "string", "description": "The reason why it can't be removed."},
            )
        ),
    ),
    "UserPassword": _object(
        "user password",
        user=_TEXT,
        password={**_or_null("string"), "description": "The password that was drawn."},
    ),
    "Explanation": _object(
        "principal roles action allowed why why_roles",
        principal=_TEXT,
        roles=_TEXTS,
        action=_TEXT,
        allowed=_FLAG,
        why=_TEXT,
        why_roles=_TEXT,
    ),
    "Configuration": _object(
        "file digest may_write why_not trial keys",
        file=_TEXT,
        digest={"type": "string", "description": "SHA-256 of the file, for `if_unchanged`."},
        may_write={"type": "boolean", "description": "The gateway itself may write the file."},
        why_not=_TEXT,
        trial=_TRIAL,
        keys=_list(
            _object(
                "key value source line kind default is_needed range choices applied_by text "
                "may_change why_not",
                key=_TEXT,
                value=_ANY,
                source={"enum": ["file", "default", "environment"]},
                line=_or_null("integer"),
                kind=_TEXT,
                default=_ANY,
                is_needed=_FLAG,
                range={"type": ["array", "null"], "items": _NUMBER},
                choices={"type": ["array", "null"], "items": _TEXT},
                applied_by={"enum": ["reload", "restart"]},
                text=_TEXT,
                may_change={"type": "boolean", "description": "This API may change it."},
                why_not=_TEXT,
            )
        ),
    ),
    "ConfigurationTrial": _object("trial", trial=_TRIAL),
    "CheckedConfiguration": _object(
        "digest changes faults command",
        digest=_TEXT,
        changes=_list(
            _object(
                "key before after was_from is_from applied_by",
                key=_TEXT,
                before=_ANY,
                after=_ANY,
                was_from=_TEXT,
                is_from=_TEXT,
                applied_by={"enum": ["reload", "restart"]},
            )
        ),
        faults={**_TEXTS, "description": "The reasons why it would not be written."},
        command={"type": "string", "description": "The command that does the same on the machine."},
    ),
    "Keys": _object(
        "items places request service has_password why_not_request",
        items=_list(
            _object(
                "field file is_store serves what name ends days_left serial sha256 key why",
                field=_TEXT,
                file=_TEXT,
                is_store=_FLAG,
                serves=_TEXT,
                what={"enum": ["certificate", "authority", "revocation list"]},
                name=_TEXT,
                ends=_or_null("string"),
                days_left=_or_null("integer"),
                serial=_or_null("string"),
                sha256=_or_null("string"),
                key=_or_null("string"),
                why=_or_null("string"),
            )
        ),
        places=_list(
            _object(
                "section part files why_not command",
                section=_TEXT,
                part={"enum": ["own", "authorities"]},
                files=_TEXTS,
                why_not={
                    "type": "string",
                    "description": "The reason why an upload is not written here.",
                },
                command={
                    "type": "string",
                    "description": "The command that does the same on the machine.",
                },
            )
        ),
        request={**_object("name made_s", name=_TEXT, made_s=_NUMBER), "type": ["object", "null"]},
        service=_or_null("string"),
        has_password=_FLAG,
        why_not_request=_TEXT,
    ),
    "CheckedKeys": _UPLOADED,
    "ImportedKeys": {"allOf": [_UPLOADED, _object("is_told", is_told=_FLAG)]},
    "KeyRequest": _object("name request", name=_TEXT, request=_TEXT),
    "RenewedKeys": _object("writes is_told", writes=_TEXTS, is_told=_FLAG),
    "ChangedConfiguration": _object(
        "outcome restarts_for trial",
        outcome={"enum": ["unchanged", "written", "on trial"]},
        restarts_for={
            **_TEXTS,
            "description": "Keys for which the gateway restarts; without any it reloads.",
        },
        trial={
            **_object("id within_s", id=_TEXT, within_s=_NUMBER),
            "type": ["object", "null"],
        },
    ),
}
"""Of answers, by the name that a route has."""


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of all `ROUTES`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hedgerow gateway",
            "version": build.VERSION,
            "description": "The API of which the page of a gateway is made (docs/page.md).",
        },
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "hedgerow_...",
                    "description": "Changes need the header X-Hedgerow-CSRF, too.",
                },
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    is_json = "/" not in route.answer
    schema = {"$ref": f"#/components/schemas/{route.answer}"} if is_json else {}
    media = "application/json" if is_json else route.answer
    error = {"$ref": "#/components/schemas/Error"}
    found: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.what,
        "parameters": [
            *(
                _parameter(Field(name, TEXT, "", is_needed=True), "path")
                for name in _NAMES.findall(route.path)
            ),
            *(_parameter(one, "query") for one in route.query),
        ],
        "responses": {
            "200": {"description": "Done.", "content": {media: {"schema": schema}}},
            "default": {
                "description": "The request was refused; `error` says why.",
                "content": {"application/json": {"schema": error}},
            },
        },
    }
    if route.body:
        body = {
            "type": "object",
            "properties": {one.name: _schema(one) for one in route.body},
            "required": [one.name for one in route.body if one.is_needed],
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": body}}
        found["requestBody"] = {
            "required": any(one.is_needed for one in route.body),
            "content": content,
        }
    if route.is_open:
        found["security"] = []
    return found


def _parameter(field: Field, where: str) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": where,
        "required": field.is_needed,
        "schema": _schema(field),
    }


def _schema(field: Field) -> Schema:
    found: Schema = {"type": field.kind}
    if field.what:
        found["description"] = field.what
    if field.kind == TEXT and field.most is not None:
        found["maxLength"] = int(field.most)
    elif field.most is not None:
        found["maximum"] = field.most
    if field.least is not None:
        found["minimum"] = field.least
    return found
