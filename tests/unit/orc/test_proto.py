"""The classes of messages: one of each, as long as the process."""

from __future__ import annotations

import gc
import weakref

from acidlib.orc import proto


def test_the_class_of_a_message_is_never_made_anew() -> None:
    """Else threads make it at the same time, and the process dies when it meets the one that was freed."""

    def classes() -> dict[str, weakref.ref[type]]:
        found = {}
        for name in proto._MESSAGES:
            message = proto.message_factory.GetMessageClass(proto._POOL.FindMessageTypeByName(f"acidlib.orc.{name}"))()
            found[name] = weakref.ref(type(message))
            for field in message.DESCRIPTOR.fields:
                if field.message_type is not None and not field.is_repeated:
                    found[f"{name}.{field.name}"] = weakref.ref(type(getattr(message, field.name)))
        return found

    before = classes()
    gc.collect()
    assert {name for name, made in before.items() if made() is None} == set()
    assert {name: made() for name, made in classes().items()} == {name: made() for name, made in before.items()}
