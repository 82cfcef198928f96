"""Work that may take its time, without holding up those who ask for more of it."""

import contextvars
import threading

PATIENCE = 1.0  # seconds to wait for an answer before saying that it isn't there yet
_MOST = 3  # threads at once; a thread can't be stopped, so who waits for more waits for one to end


class Newest:
    """Calls ``work`` for what is asked, and ``show`` with the newest answer alone.

    Args:
        work: a function of what is asked; it must not raise.
        show: is given what was asked and the answer, in one thread at a time. An answer that
            comes after a newer one was asked for is dropped.
        wait: is given what was asked, where the answer isn't there after ``PATIENCE``.
        lock: an RLock, held while ``show`` and ``wait`` run: whoever touches what they touch holds
            it too.

    A thread lives as long as its work: none is left where nothing is being done.

    >>> def show(asked, answer):
    ...     print(asked, answer)
    >>> newest = Newest(lambda asked: 2 * asked, show, print, threading.RLock())
    >>> newest.now(1)
    1 2
    >>> newest.soon(2)
    2 4
    """

    def __init__(self, work, show, wait, lock):
        self._work, self._show, self._wait = work, show, wait
        self._lock = lock
        self._turn, self._shown, self._running, self._queued = 0, 0, 0, None

    def now(self, asked):
        """Work here, however long it takes, and show the answer."""
        self._answer(self._next(), asked)

    def soon(self, asked):
        """Work in a thread; return when the answer shows, or after ``PATIENCE``."""
        turn = self._next()
        with self._lock:
            self._queued = (turn, asked)
            thread = self._start() if self._running < _MOST else None
        if thread:
            thread.join(PATIENCE)
        with self._lock:
            if self._shown < turn == self._turn:
                self._wait(asked)

    def _next(self):
        with self._lock:
            self._turn += 1
            return self._turn

    def _start(self):
        # With its context, the thread's messages belong to the cell or control that asked.
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(self._run,), daemon=True)
        self._running += 1
        thread.start()
        return thread

    def _run(self):
        try:
            while mine := self._take():
                self._answer(*mine)
        except BaseException:
            self._end()
            raise

    def _take(self):
        with self._lock:
            mine, self._queued = self._queued, None
            return mine or self._end()

    def _end(self):
        with self._lock:
            self._running -= 1

    def _answer(self, turn, asked):
        answer = self._work(asked)
        with self._lock:
            if turn == self._turn:
                self._shown = turn
                self._show(asked, answer)
