"""The messages of Sparkplug B, as far as they are read here, for protobuf's own runtime.

Names, numbers and types are those of Eclipse Tahu's ``sparkplug_b.proto`` (Sparkplug 3.0.0,
section 6.4.1). Fields that stand here in no list are unknown to the runtime, which passes them by.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE: Final = "org.eclipse.tahu.protobuf"
_F = FieldDescriptorProto

_METRIC: Final = (
    ("name", 1, _F.TYPE_STRING),
    ("alias", 2, _F.TYPE_UINT64),
    ("timestamp", 3, _F.TYPE_UINT64),
    ("datatype", 4, _F.TYPE_UINT32),
    ("is_null", 7, _F.TYPE_BOOL),
)
_VALUES: Final = (
    ("int_value", 10, _F.TYPE_UINT32),
    ("long_value", 11, _F.TYPE_UINT64),
    ("float_value", 12, _F.TYPE_FLOAT),
    ("double_value", 13, _F.TYPE_DOUBLE),
    ("boolean_value", 14, _F.TYPE_BOOL),
    ("string_value", 15, _F.TYPE_STRING),
    ("bytes_value", 16, _F.TYPE_BYTES),
)
"""Of the oneof ``value``; data sets, templates and extensions are no values of a column."""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="sparkplug_b.proto", package=_PACKAGE, syntax="proto2")
    payload = file.message_type.add(name="Payload")
    _add(payload, "timestamp", 1, _F.TYPE_UINT64)
    metrics = payload.field.add(name="metrics", number=2, type=_F.TYPE_MESSAGE)
    metrics.label = _F.LABEL_REPEATED
    metrics.type_name = f".{_PACKAGE}.Payload.Metric"
    _add(payload, "seq", 3, _F.TYPE_UINT64)
    metric = payload.nested_type.add(name="Metric")
    metric.oneof_decl.add(name="value")
    for name, number, kind in _METRIC:
        _add(metric, name, number, kind)
    for name, number, kind in _VALUES:
        _add(metric, name, number, kind).oneof_index = 0
    return file


def _add(message: DescriptorProto, name: str, number: int, kind: Any) -> FieldDescriptorProto:
    return message.field.add(name=name, number=number, type=kind, label=_F.LABEL_OPTIONAL)


# A pool of its own: another program's copy of the file, in the same process, is no conflict.
_pool = DescriptorPool()
_pool.Add(_file())
Payload: Any = GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.Payload"))
"""The message's class."""
