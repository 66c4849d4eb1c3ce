"""SQLAlchemy 2 over psycopg: Core, the object-relational mapper, and reflection."""

import datetime
import decimal
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert
from tap import check, equal, run

ENGINE = sa.create_engine("postgresql+psycopg://", pool_size=16)
METADATA = sa.MetaData()
PRODUCTS = sa.Table(
    "sa_products", METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(40), nullable=False, unique=True),
    sa.Column("price", sa.Numeric(12, 2), nullable=False),
    sa.Column("made", sa.Date),
    sa.Column("changed", sa.DateTime(timezone=True)),
    sa.Column("key", sa.Uuid),
    sa.Column("weight", sa.Double),
    sa.Column("raw", sa.LargeBinary),
    sa.Column("sold", sa.Boolean, server_default=sa.text("false")),
    sa.CheckConstraint("price >= 0", name="sa_products_price"),
    sa.Index("sa_products_made", "made", "price"),
)


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_authors"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "sa_books"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str]
    version: orm.Mapped[int] = orm.mapped_column()
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("sa_authors.id"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")
    __mapper_args__ = {"version_id_col": version}


def raises(error, call, *arguments):
    try:
        call(*arguments)
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}: {arguments}")


def fresh(metadata: sa.MetaData) -> None:
    metadata.drop_all(ENGINE)
    metadata.create_all(ENGINE)


@check
def core():
    fresh(METADATA)
    row = {
        "id": 1, "name": "hammer", "price": decimal.Decimal("12.50"), "made": datetime.date(2024, 2, 29),
        "changed": datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc), "key": uuid.UUID(int=7),
        "weight": 0.75, "raw": b"\x00\xff",
    }
    with ENGINE.begin() as connection:
        connection.execute(PRODUCTS.insert(), [row, row | {"id": 2, "name": "nail", "price": decimal.Decimal("0.05")}])
        found = connection.execute(sa.select(PRODUCTS).where(PRODUCTS.c.key == row["key"], PRODUCTS.c.id == 1)).one()
        equal(found._asdict(), row | {"sold": False})
        total = sa.select(sa.func.sum(PRODUCTS.c.price), sa.func.count()).where(PRODUCTS.c.price.between(0, 100))
        equal(tuple(connection.execute(total).one()), (decimal.Decimal("12.55"), 2))
        word = sa.case((PRODUCTS.c.price > 1, "dear"), else_="cheap").label("word")
        equal(connection.scalars(sa.select(word).order_by(PRODUCTS.c.id)).all(), ["dear", "cheap"])
        like = sa.select(PRODUCTS.c.id).where(PRODUCTS.c.name.ilike("HAM%"), PRODUCTS.c.id.in_([1, 2, 3]))
        equal(connection.scalars(like).all(), [1])
        changed = connection.execute(PRODUCTS.update().where(PRODUCTS.c.id == 2).values(price=PRODUCTS.c.price * 2))
        equal(changed.rowcount, 1)
        equal(connection.execute(PRODUCTS.delete().where(PRODUCTS.c.id == 1)).rowcount, 1)


@check
def many_rows():
    fresh(METADATA)
    rows = [{"id": id, "name": f"p{id}", "price": decimal.Decimal(id)} for id in range(2500)]
    with ENGINE.begin() as connection:
        connection.execute(PRODUCTS.insert(), rows)
        returned = connection.scalars(
            sa.insert(PRODUCTS).returning(PRODUCTS.c.id, sort_by_parameter_order=True),
            [{"id": id, "name": f"p{id}", "price": 1} for id in range(2500, 3000)]).all()
        equal(returned, list(range(2500, 3000)))
        stream = connection.execution_options(yield_per=100).execute(sa.select(PRODUCTS.c.id).order_by(PRODUCTS.c.id))
        equal([id for (id,) in stream], list(range(3000)))


@check
def upsert():
    fresh(METADATA)
    with ENGINE.begin() as connection:
        statement = insert(PRODUCTS).values(id=1, name="saw", price=1)
        connection.execute(statement)
        connection.execute(statement.on_conflict_do_nothing())
        replaced = statement.on_conflict_do_update(index_elements=["id"], set_={"price": statement.excluded.price + 4})
        equal(connection.scalar(replaced.returning(PRODUCTS.c.price)), decimal.Decimal("5.00"))


@check
def transactions():
    fresh(METADATA)
    count = sa.select(sa.func.count()).select_from(PRODUCTS)
    with ENGINE.connect() as connection:
        with connection.begin() as transaction:
            connection.execute(PRODUCTS.insert().values(id=1, name="a", price=1))
            transaction.rollback()
        with connection.begin():
            connection.execute(PRODUCTS.insert().values(id=2, name="b", price=1))
            nested = connection.begin_nested()
            raises(sa.exc.IntegrityError, connection.execute, PRODUCTS.insert().values(id=2, name="c", price=1))
            nested.rollback()
        equal(connection.scalar(count), 1)
    for level in ("REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        with ENGINE.connect().execution_options(isolation_level=level) as connection:
            equal(connection.scalar(count), 1)
            equal(connection.get_isolation_level(), "READ COMMITTED" if level == "AUTOCOMMIT" else level)


@check
def errors():
    fresh(METADATA)
    with ENGINE.connect() as connection:
        connection.execute(PRODUCTS.insert().values(id=1, name="a", price=1))
        connection.commit()
        for state, statement in {
            "23505": PRODUCTS.insert().values(id=1, name="b", price=1),
            "23514": PRODUCTS.insert().values(id=2, name="b", price=-1),
            "23502": PRODUCTS.insert().values(id=2, name=None, price=1),
        }.items():
            error = raises(sa.exc.IntegrityError, connection.execute, statement)
            equal(error.orig.sqlstate, state)
            connection.rollback()
        error = raises(sa.exc.ProgrammingError, connection.execute, sa.text("SELECT * FROM sa_nowhere"))
        equal(error.orig.sqlstate, "42P01")


@check
def mapper():
    fresh(Base.metadata)
    with orm.Session(ENGINE) as session:
        author = Author(name="Murasaki", books=[Book(title="Genji"), Book(title="Diary")])
        session.add(author)
        session.commit()
        found = session.scalars(sa.select(Author).options(orm.selectinload(Author.books))).one()
        equal(sorted(book.title for book in found.books), ["Diary", "Genji"])
        titles = sa.select(Book.title).join(Book.author).where(Author.name.like("Mura%")).order_by(Book.title)
        equal(session.scalars(titles).all(), ["Diary", "Genji"])
        found.books[0].title = "The Tale of Genji"
        session.commit()
        equal(sorted(book.version for book in found.books), [1, 2])
        joined = session.scalars(sa.select(Author).options(orm.joinedload(Author.books))).unique().one()
        equal(len(joined.books), 2)
        session.delete(joined)
        session.commit()
        equal(session.scalar(sa.select(sa.func.count()).select_from(Book)), 0)


@check
def concurrent_versions():
    # Two sessions change one object: the second notices.
    fresh(Base.metadata)
    with orm.Session(ENGINE) as first, orm.Session(ENGINE) as second:
        first.add(Author(id=1, name="a", books=[Book(id=1, title="t")]))
        first.commit()
        book = second.get(Book, 1)
        equal(book.title, "t")
        second.commit()
        equal(book.title, "t")
        first.get(Book, 1).title = "u"
        first.commit()
        book.title = "v"
        raises(orm.exc.StaleDataError, second.commit)


@check
def reflection():
    fresh(METADATA)
    fresh(Base.metadata)
    inspector = sa.inspect(ENGINE)
    assert {"sa_products", "sa_authors", "sa_books"} <= set(inspector.get_table_names())
    assert inspector.has_table("sa_products") and not inspector.has_table("sa_nowhere")
    equal(inspector.default_schema_name, "public")
    equal(inspector.get_pk_constraint("sa_products")["constrained_columns"], ["id"])
    equal([unique["column_names"] for unique in inspector.get_unique_constraints("sa_products")], [["name"]])
    equal([check["name"] for check in inspector.get_check_constraints("sa_products")], ["sa_products_price"])
    indexes = {index["name"]: index["column_names"] for index in inspector.get_indexes("sa_products")}
    equal(indexes["sa_products_made"], ["made", "price"])
    foreign = inspector.get_foreign_keys("sa_books")[0]
    equal((foreign["constrained_columns"], foreign["referred_table"], foreign["referred_columns"]),
          (["author_id"], "sa_authors", ["id"]))
    reflected = sa.Table("sa_products", sa.MetaData(), autoload_with=ENGINE)
    types = sa.dialects.postgresql.dialect()
    for column in PRODUCTS.columns:
        found = reflected.columns[column.name]
        equal((column.name, found.type.compile(types), found.nullable),
              (column.name, column.type.compile(types), column.nullable))
    assert "false" in str(reflected.columns["sold"].server_default.arg)


@check
def arrays():
    metadata = sa.MetaData()
    table = sa.Table(
        "sa_arrays", metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("numbers", sa.ARRAY(sa.Integer)),
        sa.Column("words", postgresql.ARRAY(sa.String(20)), nullable=False, server_default="{}"),
        sa.Index("sa_arrays_numbers", "numbers"),
    )
    fresh(metadata)
    with ENGINE.begin() as connection:
        rows = [{"id": 1, "numbers": [3, None, 1], "words": ["a b", 'q"']}, {"id": 2, "numbers": [], "words": ["x"]}]
        connection.execute(table.insert(), rows)
        connection.execute(table.insert(), {"id": 3})
        equal(connection.execute(sa.select(table).order_by(table.c.id)).all(),
              [(1, [3, None, 1], ["a b", 'q"']), (2, [], ["x"]), (3, None, [])])
        ids = sa.select(table.c.id).order_by(table.c.id)
        equal(connection.scalars(ids.where(table.c.words.contains(["x"]))).all(), [2])
        equal(connection.scalars(ids.where(table.c.words.overlap(["x", "a b"]))).all(), [1, 2])
        equal(connection.scalars(ids.where(3 == sa.any_(table.c.numbers))).all(), [1])
        equal(connection.scalars(ids.where(table.c.numbers == [3, None, 1])).all(), [1])
        equal(connection.scalars(ids.where(table.c.numbers[1] == 3)).all(), [1])
        connection.execute(table.update().where(table.c.id == 2).values(numbers=[7], words=table.c.words + ["y"]))
        equal(connection.execute(sa.select(table.c.numbers, table.c.words).where(table.c.id == 2)).one(), ([7], ["x", "y"]))
    reflected = sa.Table("sa_arrays", sa.MetaData(), autoload_with=ENGINE)
    equal([str(column.type.compile(postgresql.dialect())) for column in reflected.columns],
          ["INTEGER", "INTEGER[]", "VARCHAR(20)[]"])


@check
def views():
    with ENGINE.begin() as connection:
        connection.execute(sa.text("DROP VIEW IF EXISTS sa_cheap"))
    fresh(METADATA)
    with ENGINE.begin() as connection:
        connection.execute(sa.text("CREATE VIEW sa_cheap AS SELECT id, name FROM sa_products WHERE price < 1"))
        connection.execute(PRODUCTS.insert(), [{"id": 1, "name": "a", "price": 0}, {"id": 2, "name": "b", "price": 2}])
    inspector = sa.inspect(ENGINE)
    assert "sa_cheap" in inspector.get_view_names()
    view = sa.Table("sa_cheap", sa.MetaData(), autoload_with=ENGINE)
    with ENGINE.begin() as connection:
        equal(connection.execute(sa.select(view)).all(), [(1, "a")])
        connection.execute(sa.text("DROP VIEW sa_cheap"))


if __name__ == "__main__":
    sys.exit(run())
