"""Work in threads: the newest answer shows, and nobody waits for ever."""

import threading
import time

import pytest

from gradlab.widgets import newest as room
from gradlab.widgets.newest import Newest


class Desk:
    """Work that ends when its gate opens, and what was shown and waited for."""

    def __init__(self):
        self.gates, self.begun, self.shown, self.waited = {}, [], [], []
        self.newest = Newest(
            self.work, lambda *pair: self.shown.append(pair), self.waited.append, threading.RLock()
        )

    def work(self, asked):
        self.begun.append(asked)
        if asked in self.gates:
            assert self.gates[asked].wait(20)
        return -asked

    def ask(self, *slow):
        for asked in slow:
            self.gates[asked] = threading.Event()
            self.newest.soon(asked)

    def open_all(self):
        for gate in self.gates.values():
            gate.set()
        until(lambda: self.newest._running == 0)


def until(true):
    give_up = time.monotonic() + 20
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr(room, "PATIENCE", 0.02)
    desk = Desk()
    yield desk
    desk.open_all()


def test_quick_work_shows_before_soon_returns(desk, monkeypatch):
    monkeypatch.setattr(room, "PATIENCE", 20)
    desk.newest.soon(1)
    assert (desk.shown, desk.waited) == ([(1, -1)], [])


def test_slow_work_is_waited_for_and_shows_when_it_is_done(desk):
    desk.ask(1)
    assert (desk.shown, desk.waited) == ([], [1])
    desk.open_all()
    assert (desk.shown, desk.waited) == ([(1, -1)], [1])


def test_a_newer_answer_overtakes_and_the_older_is_dropped(desk):
    desk.ask(1)
    desk.newest.now(2)
    desk.open_all()
    assert desk.shown == [(2, -2)]


def test_of_those_who_wait_for_a_thread_only_the_newest_is_worked_on(desk):
    desk.ask(1, 2, 3, 4, 5)
    desk.open_all()
    assert sorted(desk.begun) == [1, 2, 3, 5]
    assert desk.shown == [(5, -5)]
    assert desk.waited == [1, 2, 3, 4, 5]


def test_no_thread_is_left_and_an_error_in_showing_is_not_swallowed(desk, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    monkeypatch.setattr(desk.newest, "_show", lambda asked, answer: 1 / 0)
    desk.newest.soon(1)
    until(lambda: desk.newest._running == 0)
    assert isinstance(raised[0], ZeroDivisionError)
    before = threading.active_count()
    desk.newest.soon(2)
    until(lambda: threading.active_count() <= before)
