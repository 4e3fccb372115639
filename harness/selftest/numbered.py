"""The names of the checks, without loading torch."""

NAMES = {
    1: "the card and torch",
    2: "IEEE single precision",
    3: "every method trains",
    4: "engines agree with the CPU",
    5: "trainings agree with the CPU",
    6: "same task, same bits",
    7: "interrupted and resumed",
    8: "no step waits",
    9: "step times",
    10: "memory is released",
    11: "out of memory is reported",
    12: "every card at once",
}
ALL_CARDS = NAMES[12]
SINGLE_NUMBERS = tuple(number for number in NAMES if number != 12)
QUICK_NUMBERS = (1, 2, 4, 6)
