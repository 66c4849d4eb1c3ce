"""Rows of TPC-C's tables as its clause 4.3.3 fills them, from a seed: every server gets the same. Values are COPY's texts."""

import dataclasses
import random
import string
from collections.abc import Iterator

SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
DISTRICTS = 10
NULL = r"\N"
SINCE = "2024-01-01 00:00:00"


@dataclasses.dataclass(frozen=True)
class Size:
    """How many rows; but for warehouses, the specification's unless it is to be small."""

    warehouses: int
    items: int = 100_000
    # Of each district; each has made one order.
    customers: int = 3_000

    @property
    def delivered(self) -> int:
        """Orders of a district that are delivered: seven of ten."""
        return self.customers * 7 // 10


def last_name(number: int) -> str:
    return "".join(SYLLABLES[number // place % 10] for place in (100, 10, 1))


class Rows:
    """All rows, table by table."""

    def __init__(self, size: Size, seed: int = 1):
        self.size = size
        self.random = random.Random(seed)
        # Texts are pieces of one long one: drawing each letter would take minutes.
        self.letters = "".join(self.random.choices(string.ascii_letters + string.digits, k=100_000))

    def tables(self) -> Iterator[tuple[str, Iterator[tuple]]]:
        for make in (self.names, self.warehouse, self.district, self.customer, self.history, self.item, self.stock):
            yield make.__name__, make()
        # Orders and their lines agree on how many there are.
        counts = [self.random.randint(5, 15) for _ in range(self.size.warehouses * DISTRICTS * self.size.customers)]
        yield "orders", self.orders(counts)
        yield "new_order", self.new_order()
        yield "order_line", self.order_line(counts)

    def text(self, least: int, most: int) -> str:
        length = self.random.randint(least, most)
        begin = self.random.randrange(len(self.letters) - length)
        return self.letters[begin:begin + length]

    def data(self) -> str:
        """One of ten has ORIGINAL in it."""
        text = self.text(26, 50)
        return text if self.random.randrange(10) else "ORIGINAL" + text[8:]

    def address(self) -> tuple:
        return (*(self.text(10, 20) for _ in range(3)), self.text(2, 2).upper(), f"{self.random.randrange(10_000):04}11111")

    def districts(self) -> Iterator[tuple[int, int]]:
        return ((w, d) for w in range(1, self.size.warehouses + 1) for d in range(1, DISTRICTS + 1))

    def names(self) -> Iterator[tuple]:
        return ((n, last_name(n)) for n in range(1000))

    def warehouse(self) -> Iterator[tuple]:
        ytd = 30_000 * DISTRICTS
        for w in range(1, self.size.warehouses + 1):
            yield (w, self.text(6, 10), *self.address(), f"0.{self.random.randrange(2001):04}", f"{ytd}.00")

    def district(self) -> Iterator[tuple]:
        for w, d in self.districts():
            tax = f"0.{self.random.randrange(2001):04}"
            yield (w, d, self.text(6, 10), *self.address(), tax, "30000.00", self.size.customers + 1)

    def customer(self) -> Iterator[tuple]:
        for w, d in self.districts():
            for c in range(1, self.size.customers + 1):
                number = c - 1 if c <= 1000 else (self.random.randrange(256) | self.random.randrange(1000)) % 1000
                credit = "BC" if self.random.randrange(10) == 0 else "GC"
                phone = f"{self.random.randrange(10 ** 16):016}"
                yield (w, d, c, self.text(8, 16), "OE", last_name(number), *self.address(), phone, SINCE, credit, "50000.00",
                       f"0.{self.random.randrange(5001):04}", "-10.00", "10.00", 1, 0, self.text(300, 500))

    def history(self) -> Iterator[tuple]:
        for w, d in self.districts():
            for c in range(1, self.size.customers + 1):
                yield (c, d, w, d, w, SINCE, "10.00", self.text(12, 24))

    def item(self) -> Iterator[tuple]:
        for i in range(1, self.size.items + 1):
            price = self.random.randrange(100, 10_001)
            yield (i, self.random.randint(1, 10_000), self.text(14, 24), f"{price // 100}.{price % 100:02}", self.data())

    def stock(self) -> Iterator[tuple]:
        for w in range(1, self.size.warehouses + 1):
            for i in range(1, self.size.items + 1):
                districts = (self.text(24, 24) for _ in range(DISTRICTS))
                yield (w, i, self.random.randint(10, 100), *districts, 0, 0, 0, self.data())

    def orders(self, counts: list[int]) -> Iterator[tuple]:
        count = iter(counts)
        for w, d in self.districts():
            customers = list(range(1, self.size.customers + 1))
            self.random.shuffle(customers)
            for o, c in enumerate(customers, 1):
                carrier = self.random.randint(1, 10) if o <= self.size.delivered else NULL
                yield (w, d, o, c, SINCE, carrier, next(count), 1)

    def new_order(self) -> Iterator[tuple]:
        for w, d in self.districts():
            for o in range(self.size.delivered + 1, self.size.customers + 1):
                yield (w, d, o)

    def order_line(self, counts: list[int]) -> Iterator[tuple]:
        count = iter(counts)
        for w, d in self.districts():
            for o in range(1, self.size.customers + 1):
                is_delivered = o <= self.size.delivered
                for number in range(1, next(count) + 1):
                    amount = self.random.randrange(1, 1_000_000)
                    amount = "0.00" if is_delivered else f"{amount // 100}.{amount % 100:02}"
                    yield (w, d, o, number, self.random.randint(1, self.size.items), w, SINCE if is_delivered else NULL, 5,
                           amount, self.text(24, 24))
