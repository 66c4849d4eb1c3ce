"""The tables as they are after the last revision."""

import datetime
import decimal
import uuid

import sqlalchemy as sa
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    metadata = sa.MetaData(naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    })


class Customer(Base):
    __tablename__ = "al_customers"
    __table_args__ = (
        sa.CheckConstraint("credit >= 0", name="credit"),
        sa.UniqueConstraint("email", "country"),
        sa.Index("ix_al_customers_full_name", sa.desc("full_name")),
        {"comment": "Who orders"},
    )
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    full_name: orm.Mapped[str] = orm.mapped_column(sa.String(120), comment="As on the letter")
    email: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    country: orm.Mapped[str] = orm.mapped_column(sa.CHAR(2), server_default="JP")
    credit: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2), server_default=sa.text("0"))
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(server_default=sa.func.gen_random_uuid())
    joined: orm.Mapped[datetime.datetime] = orm.mapped_column(
        sa.DateTime(timezone=True), server_default=sa.func.now())


class Order(Base):
    __tablename__ = "al_orders"
    __table_args__ = (
        sa.Index("ix_al_orders_open", "shipped", "customer_id"),
        sa.Index(None, "placed"),
    )
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("al_customers.id", ondelete="CASCADE"))
    placed: orm.Mapped[datetime.date]
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(14, 4))
    shipped: orm.Mapped[bool] = orm.mapped_column(server_default=sa.false())
    state: orm.Mapped[str] = orm.mapped_column(
        sa.Enum("new", "paid", "done", name="state", native_enum=False, create_constraint=True, length=8),
        server_default="new")
    note: orm.Mapped[str | None] = orm.mapped_column(sa.Text)


class Tag(Base):
    __tablename__ = "al_tags"
    order_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("al_orders.id"), primary_key=True)
    word: orm.Mapped[str] = orm.mapped_column(sa.String(20), primary_key=True)
    weight: orm.Mapped[float] = orm.mapped_column(sa.Double, server_default="1.5")
