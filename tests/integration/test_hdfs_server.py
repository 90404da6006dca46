"""The HDFS of the tests: that it stores, is limited, and comes back as it was."""

from __future__ import annotations

import pytest
from long_runs import in_a_long_run
from servers.hdfs import SUPERUSER, Hdfs

# the faults of HDFS would not come about otherwise
pytestmark = [pytest.mark.live, in_a_long_run]


def test_what_was_written_is_there_after_the_name_node_was_killed(hdfs: Hdfs) -> None:
    directory = hdfs.new_directory(owner="etl", group="hive", mode=0o750)
    path = directory.removeprefix(hdfs.uri)
    client = hdfs.client()
    with client.create(f"{path}/file") as file:
        file.write(b"data")
    hdfs.kill_name_node()
    hdfs.start()
    with client.read(f"{path}/file") as file:
        assert file.read() == b"data"
    found = client.get_file_info(path)
    assert (found.owner, found.group, found.permission) == ("etl", "hive", 0o750)
    assert client.get_file_info(f"{path}/file").owner == SUPERUSER
    assert hdfs.live_data_nodes() == 2


def test_quotas_and_safe_mode(hdfs: Hdfs) -> None:
    directory = hdfs.new_directory()
    path = directory.removeprefix(hdfs.uri)
    client = hdfs.client()
    hdfs.set_quota(directory, names=2)
    client.mkdirs(f"{path}/one")
    with pytest.raises(RuntimeError, match="NSQuotaExceededException"):
        client.mkdirs(f"{path}/two")
    hdfs.set_quota(directory)
    hdfs.safe_mode(on=True)
    try:
        with pytest.raises(RuntimeError, match="SafeModeException"):
            client.mkdirs(f"{path}/two")
    finally:
        hdfs.safe_mode(on=False)
    client.mkdirs(f"{path}/two")
