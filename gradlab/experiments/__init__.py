"""Small experiments that explorers show: functions of numbers, each one compiled call."""
