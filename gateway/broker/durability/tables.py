"""The tables of the checkpoints' file."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
"""Of the tables; a file of another format is not read."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS checkpoint (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS delivered (
    origin TEXT NOT NULL, epoch INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (origin, epoch)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lacking (
    session INTEGER NOT NULL, origin TEXT NOT NULL, epoch INTEGER NOT NULL, ranges BLOB NOT NULL,
    PRIMARY KEY (session, origin, epoch)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY,
    origin TEXT NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL,
    topic TEXT NOT NULL, payload BLOB NOT NULL, qos INTEGER NOT NULL, retain INTEGER NOT NULL,
    properties BLOB NOT NULL, expires_us INTEGER,
    UNIQUE (origin, epoch, number)
) STRICT;
CREATE TABLE IF NOT EXISTS session (
    number INTEGER PRIMARY KEY,
    client_id TEXT NOT NULL, username TEXT, roles BLOB NOT NULL, version INTEGER NOT NULL,
    expiry_s INTEGER NOT NULL, last_packet_id INTEGER NOT NULL, incoming BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS away (
    session INTEGER PRIMARY KEY, since_us INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS owed (
    session INTEGER PRIMARY KEY, wanted BLOB NOT NULL, given BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS subscription (
    session INTEGER NOT NULL, filter TEXT NOT NULL, qos INTEGER NOT NULL,
    no_local INTEGER NOT NULL, retain_as_published INTEGER NOT NULL, identifier INTEGER NOT NULL,
    PRIMARY KEY (session, filter)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS delivery (
    session INTEGER NOT NULL, packet_id INTEGER NOT NULL, place INTEGER NOT NULL,
    message INTEGER, flags INTEGER NOT NULL, identifiers BLOB NOT NULL,
    PRIMARY KEY (session, packet_id, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (
    session INTEGER NOT NULL, place INTEGER NOT NULL, origin TEXT NOT NULL, epoch INTEGER NOT NULL,
    ranges BLOB NOT NULL, flags INTEGER NOT NULL, identifiers BLOB NOT NULL, expires_us INTEGER,
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS timed (
    session INTEGER NOT NULL, place INTEGER NOT NULL, times BLOB NOT NULL,
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marked (
    session INTEGER NOT NULL, place INTEGER NOT NULL, origin TEXT NOT NULL, epoch INTEGER NOT NULL,
    number INTEGER NOT NULL, mark INTEGER NOT NULL,
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spared (
    origin TEXT NOT NULL, epoch INTEGER NOT NULL, number INTEGER NOT NULL, owner TEXT NOT NULL,
    size INTEGER NOT NULL,
    topic TEXT NOT NULL, payload BLOB NOT NULL, qos INTEGER NOT NULL, retain INTEGER NOT NULL,
    properties BLOB NOT NULL,
    UNIQUE (origin, epoch, number, owner)
) STRICT;
CREATE INDEX IF NOT EXISTS spared_of ON spared (owner, origin, epoch, number, size);
CREATE TABLE IF NOT EXISTS retained (topic TEXT PRIMARY KEY, message INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS tombstone (
    topic TEXT PRIMARY KEY,
    physical_us INTEGER NOT NULL, logical INTEGER NOT NULL, origin TEXT NOT NULL,
    epoch INTEGER NOT NULL, number INTEGER NOT NULL, qos INTEGER, since_us INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS proven (topic TEXT PRIMARY KEY, proof BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS will (
    number INTEGER PRIMARY KEY,
    client_id TEXT NOT NULL, username TEXT, roles BLOB NOT NULL, version INTEGER NOT NULL,
    topic TEXT NOT NULL, payload BLOB NOT NULL, qos INTEGER NOT NULL, retain INTEGER NOT NULL,
    properties BLOB NOT NULL
) STRICT;
"""

RETAINED: Final = """\
SELECT retained.topic, retained.message,
    length(message.topic) + length(message.payload) + length(message.properties)
FROM retained LEFT JOIN message ON message.id = retained.message ORDER BY retained.message DESC
"""
"""The retained messages, the latest first, with the bytes of each: no more than in memory."""

NEEDED: Final = """\
SELECT * FROM message WHERE id IN (SELECT message FROM delivery WHERE message IS NOT NULL)
    OR (id >= ? AND id IN (SELECT message FROM retained))
"""
"""The messages of deliveries, and those that are retained from a number on."""

UNMARKED: Final = "DELETE FROM marked WHERE session NOT IN (SELECT number FROM session)"
"""Removes what sessions left that ended while a release ran that knows no marks."""

SWEEP: Final = """
DELETE FROM message WHERE id NOT IN (
    SELECT message FROM delivery WHERE message IS NOT NULL UNION SELECT message FROM retained
)
"""
"""Removes what nothing refers to any more: most often because it was acknowledged."""
