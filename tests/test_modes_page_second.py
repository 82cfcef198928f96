"""``docs/modes.md`` says what is true: the other rooms, in a file of their own for speed."""

from modes_page import SECOND, every_member, hold, truth

found = truth(SECOND)


@every_member(SECOND)
def test_the_page_tells_the_truth(found, room, member):
    hold(found, room, member)
