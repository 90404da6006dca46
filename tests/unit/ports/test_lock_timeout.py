"""How long an exclusive lock of Hive 3.1 is waited for: one setting, in every job."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acidlib.config.settings import Layer
from acidlib.execute.services import Services
from acidlib.model.tables import TableRef
from acidlib.ports import hive3 as metastore


@pytest.mark.parametrize(("given", "seconds"), [({}, 30.0), ({"acidlib.lock.timeout": "1500ms"}, 1.5)])
def test_whoever_works_alone_waits_as_long_as_the_settings_say(
    services: Services, given: dict[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def lock(*_: object, **options: Any) -> nullcontext[None]:
        asked.update(options)
        return nullcontext()

    monkeypatch.setattr(metastore, "publication_lock", lock)
    settings, _ = services.settings.with_layer(Layer.TOML, given)
    queue, hms = cast("Any", SimpleNamespace(schema_version=None)), cast("Any", SimpleNamespace(reader=3))
    tables = metastore.Hive3Tables(replace(services, settings=settings), queue, hms, hms, name="m")
    with tables.exclusive(TableRef("d", "t")):
        assert (asked["timeout_seconds"], asked["exclusive"], asked["agent"]) == (seconds, True, services.worker_id)
