"""The first tables and rows."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade():
    customers = op.create_table(
        "al_customers",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("mail", sa.String(60)),
        sa.Column("credit", sa.Integer),
        sa.Column("fax", sa.Text),
    )
    op.create_table(
        "al_orders",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("customer", sa.Integer, sa.ForeignKey("al_customers.id", name="al_orders_customer"), nullable=False),
        sa.Column("placed", sa.String(10), nullable=False),
        sa.Column("cents", sa.Integer, nullable=False),
        sa.Column("shipped", sa.Boolean),
    )
    op.create_index("al_orders_placed", "al_orders", ["placed"])
    op.bulk_insert(customers, [{"name": f"Customer {n}", "mail": f"c{n}@example.com", "credit": n if n % 3 else None}
                               for n in range(1, 101)])
    op.execute("INSERT INTO al_orders (customer, placed, cents, shipped) SELECT n % 100 + 1, "
               "to_char(DATE '2024-01-01' + n, 'YYYY-MM-DD'), n * 125, CASE WHEN n % 2 = 0 THEN true END "
               "FROM generate_series(1, 1000) AS g(n)")


def downgrade():
    op.drop_index("al_orders_placed", table_name="al_orders")
    op.drop_table("al_orders")
    op.drop_table("al_customers")
