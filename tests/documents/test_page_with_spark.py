"""The page of the tables, whose job is run with Spark, on an installed package."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from machine import Machine
from pages import PROJECT, Block, blocks
from session import Session
from surroundings_of_pages import PARTS, SURROUNDINGS

from cloud_ingest.job.argument_faults import argument_faults
from gateway.tools import cli
from gateway.tools.provisioning import collecting

PAGE = PROJECT / "docs" / "cloud.md"


def of_the_page(text: str) -> Block:
    """The page's block that has a text."""
    (found,) = [block for block in blocks(PAGE) if text in block.text]
    return found


@pytest.mark.soak("it starts Spark again and again")
@pytest.mark.timeout(0)
def test_what_the_page_of_the_tables_says_works_as_it_stands(
    installation: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, installation)
    with machine.running():
        Session(machine, SURROUNDINGS, PARTS).read_page(PAGE)


@pytest.mark.soak("it starts a cluster of Spark")
@pytest.mark.timeout(0)
def test_what_the_page_says_of_a_standalone_cluster_works_as_it_stands(
    installation: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, installation)
    with machine.running():
        session = Session(machine, SURROUNDINGS, PARTS)
        for block in blocks(PAGE):  # down to the spool
            session.read(block)
            if "hedgerow collector --config" in block.text:
                break
        session.have("collected readings")
        session.do("mkdir /mnt/spool /mnt/tables 2>/dev/null || true")
        session.do("mount --bind /var/lib/hedgerow-collector/spool /mnt/spool")
        session.do("mount -t tmpfs tables /mnt/tables")
        *exports, master, worker = of_the_page("master.Master").text.splitlines()
        before = "\n".join(exports)
        session.begin(f"{before}\n{master}", "I have been elected leader")
        session.begin(f"{before}\n{worker}", "Successfully registered with master")
        printed = session.do(of_the_page("--master spark://").text)
        assert "tables /mnt/tables: telemetry, quarantine" in printed
        assert "gw-north" in printed


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(of_the_page("kind: StatefulSet").text))


def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications, by name."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in documents()
        if one["kind"] in ("StatefulSet", "Deployment")
    }


def test_the_files_for_kubernetes_are_whole_and_have_commands_that_there_are() -> None:
    there = {(one["kind"], one["metadata"]["name"]) for one in documents()}
    made = of_the_page("kubectl create namespace").text
    for name, pod in pods().items():
        (container,) = pod["containers"]
        program, *arguments = container["command"]
        options = cli.command_line().parse_args(arguments)
        assert (program, arguments[0]) == ("hedgerow", name)
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
        assert (
            "PersistentVolumeClaim",
            volumes["spool"]["persistentVolumeClaim"]["claimName"],
        ) in there
        if name == "ingest":
            assert ("ServiceAccount", pod["serviceAccountName"]) in there
            faults = [one for one in argument_faults(options) if "no such folder" not in one]
            assert faults == []
            confs = dict(one.split("=", 1) for one in options.conf)
            volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spool"
            (mounted,) = container["volumeMounts"]
            assert confs[f"{volume}.mount.path"] == mounted["mountPath"] == str(options.spool[0])
            assert confs[f"{volume}.options.claimName"] == "spool"
            assert confs["spark.kubernetes.container.image"] == container["image"]
            assert "create secret generic store" in made


def test_the_collectors_secrets_have_all_its_files_in_the_places_that_it_names() -> None:
    (config,) = [one for one in pods()["collector"]["volumes"] if one["name"] == "config"]
    plain, tls = (one["secret"] for one in config["projected"]["sources"])
    made = [shlex.split(line) for line in of_the_page("kubectl create namespace").text.splitlines()]
    folders = {words[6]: words[-1] for words in made if "--from-file" in words}
    assert folders == {
        plain["name"]: "hedgerow-fleet/collector",
        tls["name"]: "hedgerow-fleet/collector/tls",
    }
    names = ("ca.pem", "revoked.pem", "collector.pem", "collector.key.pem")
    assert {one["key"]: one["path"] for one in tls["items"]} == {one: f"tls/{one}" for one in names}
    (container,) = pods()["collector"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert container["command"][-1] == f"{mounts['config']}/{collecting.FILE}"
    assert any(f'"{mounts["spool"]}"' in " ".join(words) for words in made)
