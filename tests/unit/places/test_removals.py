"""What dead runs left at a place, as the cleaner asks for it."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from located import at

from acidlib.config.settings import Layer
from acidlib.errors import ConflictError
from acidlib.execute.services import Services
from acidlib.places.removals import DeleteRateLimiter, litter_of, remove_named
from acidlib.stores.renaming.claims import claim
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStore
from acidlib.stores.store import CLAIM

DAY = 86_400


def test_nothing_is_litter_while_somebody_else_is_at_work(services: Services, tmp_path: Path) -> None:
    fs, now = LocalFileSystem(), time.time()
    RenameStore(fs).stage(at(tmp_path), unique="dead", owner="o", now=0)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.utime(path, (now - 2 * DAY, now - 2 * DAY))

    def found(seconds: float, own_token: str | None = None) -> list[str]:
        later = replace(services, clock=lambda: now + seconds)
        return list(litter_of(later, at(tmp_path), own_token))

    with claim(fs, at(tmp_path), owner="o", token="t"):
        assert found(0) == []
        assert found(0, "t") == ["_tmp_dead"]
        assert found(602) == ["_tmp_dead"]
    assert found(0) == ["_tmp_dead"]


def limited(services: Services, files_per_second: int, **more: Any) -> DeleteRateLimiter:
    settings, _ = services.settings.with_layer(
        Layer.COMMAND_LINE, {"acidlib.cleaner.files.per.second": str(files_per_second)}
    )
    return DeleteRateLimiter(replace(services, settings=settings), **more)


def test_all_threads_together_keep_the_pace(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads there are: each file has its time, and there is no burst."""
    limiter, waits = limited(services, 100, clock=lambda: 7.0), list[float]()
    monkeypatch.setattr(limiter._stopped, "wait", waits.append)
    assert limiter.pace is not None
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(limiter.pace, [1] * 31))
    assert sorted(waits) == pytest.approx([number / 100 for number in range(31)])


def test_the_files_of_one_directory_keep_the_pace_and_an_interrupt_wakes_what_waits(
    services: Services, tmp_path: Path
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for number in range(4):
        (tmp_path / "a" / str(number)).touch()
        (tmp_path / "a" / "b" / str(number)).touch()
    limiter = limited(services, 1, clock=lambda: 7.0)  # a machine that pauses lets no further file go

    def left() -> int:
        return len([path for path in (tmp_path / "a").rglob("*") if path.is_file()])

    def stop_soon() -> None:
        while left() == 8:
            time.sleep(0.01)
        limiter.stop()

    threading.Thread(target=stop_soon).start()
    with services.claim_and_revoke(at(tmp_path)) as held:
        _, problems = remove_named(services, held, {"a": "r"}, trash=False, limiter=limiter, is_seen=False)
    assert "was interrupted" in str(problems[0])
    assert left() >= 5, "a burst would take all of them"


def test_nothing_is_removed_after_an_interrupt(services: Services) -> None:
    limiter = DeleteRateLimiter(services)
    limiter.assert_not_stopped()
    limiter.stop()
    with pytest.raises(ConflictError, match="was interrupted"):
        limiter.assert_not_stopped()


def test_all_is_out_of_sight_for_good_before_the_first_goes(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").touch()
    steps: list[str] = []

    def logging(real: Any) -> Any:
        def logged(self: Any, path: str, *more: Any, **named: Any) -> Any:
            if CLAIM not in path:
                steps.append(real.__name__)
            return real(self, path, *more, **named)

        return logged

    for step in ("rename_noreplace", "sync", "remove_tree"):
        monkeypatch.setattr(LocalFileSystem, step, logging(getattr(LocalFileSystem, step)))
    with services.claim_and_revoke(at(tmp_path)) as held:
        steps.clear()
        removed, problems = remove_named(
            services, held, {"a": "r", "b": "r"}, trash=False, limiter=DeleteRateLimiter(services)
        )
        assert steps == [*["rename_noreplace"] * 2, "sync", *["remove_tree"] * 2, "sync"]
    assert ([item.path for item in removed], problems) == (["a", "b"], ())
    assert list(tmp_path.iterdir()) == []
