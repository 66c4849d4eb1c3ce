"""Amounts move from one column to another, batch by batch; a table of tags is filled from notes."""

import decimal

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"

ORDERS = sa.table("al_orders", sa.column("id", sa.BigInteger), sa.column("cents", sa.Integer),
                  sa.column("total", sa.Numeric(14, 4)), sa.column("shipped", sa.Boolean))
BATCH = 300


def upgrade():
    op.add_column("al_orders", sa.Column("total", sa.Numeric(14, 4)))
    connection, last = op.get_bind(), 0
    while rows := connection.execute(sa.select(ORDERS.c.id, ORDERS.c.cents).where(ORDERS.c.id > last)
                                     .order_by(ORDERS.c.id).limit(BATCH)).all():
        connection.execute(
            ORDERS.update().where(ORDERS.c.id == sa.bindparam("order")).values(total=sa.bindparam("amount")),
            [{"order": id, "amount": decimal.Decimal(cents) / 100} for id, cents in rows])
        last = rows[-1].id
    op.execute(ORDERS.update().where(ORDERS.c.shipped.is_(None)).values(shipped=False))
    op.alter_column("al_orders", "total", nullable=False, existing_type=sa.Numeric(14, 4))
    op.alter_column("al_orders", "shipped", nullable=False, server_default=sa.false(), existing_type=sa.Boolean)
    op.drop_column("al_orders", "cents")
    op.create_table(
        "al_tags",
        sa.Column("order_id", sa.BigInteger, sa.ForeignKey("al_orders.id", name="fk_al_tags_order_id")),
        sa.Column("word", sa.String(20)),
        sa.Column("weight", sa.Double, nullable=False, server_default="1.5"),
        sa.PrimaryKeyConstraint("order_id", "word", name="pk_al_tags"),
    )
    op.execute("INSERT INTO al_tags (order_id, word) SELECT id, 'large' FROM al_orders WHERE total > 1000")


def downgrade():
    op.drop_table("al_tags")
    op.add_column("al_orders", sa.Column("cents", sa.Integer))
    op.execute("UPDATE al_orders SET cents = CAST(total * 100 AS integer)")
    op.alter_column("al_orders", "cents", nullable=False, existing_type=sa.Integer)
    op.alter_column("al_orders", "shipped", nullable=True, server_default=None, existing_type=sa.Boolean)
    op.drop_column("al_orders", "total")
