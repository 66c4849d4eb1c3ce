"""Constraints, comments and indexes, one of them backwards and one made beside writers."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade():
    op.create_check_constraint(op.f("ck_al_customers_credit"), "al_customers", "credit >= 0")
    op.create_unique_constraint("uq_al_customers_email_country", "al_customers", ["email", "country"])
    op.create_index("ix_al_customers_full_name", "al_customers", [sa.text("full_name DESC")])
    op.create_table_comment("al_customers", "Who orders")
    op.alter_column("al_customers", "full_name", comment="As on the letter", existing_type=sa.String(120),
                    existing_nullable=False)
    op.drop_constraint("al_orders_customer", "al_orders", type_="foreignkey")
    op.create_foreign_key("fk_al_orders_customer_id", "al_orders", "al_customers", ["customer_id"], ["id"],
                          ondelete="CASCADE")
    op.drop_index("al_orders_placed", table_name="al_orders")
    op.create_index(op.f("ix_al_orders_placed"), "al_orders", ["placed"])
    op.add_column("al_orders", sa.Column("state", sa.String(8), nullable=False, server_default="new"))
    op.create_check_constraint(op.f("ck_al_orders_state"), "al_orders", "state IN ('new', 'paid', 'done')")
    with op.get_context().autocommit_block():
        op.create_index("ix_al_orders_open", "al_orders", ["shipped", "customer_id"],
                        postgresql_concurrently=True, if_not_exists=True)


def downgrade():
    with op.get_context().autocommit_block():
        op.drop_index("ix_al_orders_open", table_name="al_orders", postgresql_concurrently=True, if_exists=True)
    op.drop_constraint(op.f("ck_al_orders_state"), "al_orders", type_="check")
    op.drop_column("al_orders", "state")
    op.drop_index("ix_al_orders_placed", table_name="al_orders")
    op.create_index("al_orders_placed", "al_orders", ["placed"])
    op.drop_constraint("fk_al_orders_customer_id", "al_orders", type_="foreignkey")
    op.create_foreign_key("al_orders_customer", "al_orders", "al_customers", ["customer_id"], ["id"])
    op.alter_column("al_customers", "full_name", comment=None, existing_comment="As on the letter",
                    existing_type=sa.String(120), existing_nullable=False)
    op.drop_table_comment("al_customers", existing_comment="Who orders")
    op.drop_index("ix_al_customers_full_name", table_name="al_customers")
    op.drop_constraint("uq_al_customers_email_country", "al_customers", type_="unique")
    op.drop_constraint(op.f("ck_al_customers_credit"), "al_customers", type_="check")
