"""Small experiments that explorers show: functions of numbers, each one call of a graph."""
