"""TPC-C's five transactions (clause 2) as scripts of pgbench, and queries of CH-benCHmark (Cole et al., DBTest 2011) beside them.

What a client would work out is worked out by pgbench, so statements are those that drivers send. Texts it cannot work with:
last names come from a table, a customer's credit is bad if his number ends in 0, and `h_data` is the warehouse's name.
"""

# Of a thousand transactions, those of each kind: no less than clause 5.2.3 wants.
WEIGHTS = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}

WAREHOUSE = r"\set w_id random(1, :warehouses)"
CUSTOMER = r"\set c_id ((random(0, 1023) | random(1, :customers)) + 259) % :customers + 1"
BY_NAME = """\
\\set n (((random(0, 255) | random(0, 999)) + 123) % 1000) % :customers
SELECT name AS c_last FROM names WHERE n = :n \\gset
SELECT count(*) AS count FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = :c_last \\gset
\\set middle (:count - 1) / 2
SELECT c_id FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = :c_last ORDER BY c_first OFFSET :middle LIMIT 1 \\gset"""


def scripts() -> list[tuple[str, str, int]]:
    """Each script's transaction, its text and its weight. New-Order has one for each district, whose column of `stock` it reads."""
    new_orders = [("new_order", new_order(district), WEIGHTS["new_order"]) for district in range(1, 11)]
    others = (("payment", payment()), ("order_status", order_status()), ("delivery", delivery()), ("stock_level", STOCK_LEVEL))
    return new_orders + [(name, text, 10 * WEIGHTS[name]) for name, text in others]


def new_order(district: int) -> str:
    """One of a hundred is taken back, after an item that is not there."""
    lines = range(1, 16)
    drawn = "\n".join(f"""\
\\set item_{n} ((random(0, 8191) | random(1, :items)) + 7911) % :items + 1
\\set supply_{n} case when random(1, 100) = 1 then random(1, :warehouses) else :w_id end""" for n in lines)
    is_local = " and ".join(f"(:count < {n} or :supply_{n} = :w_id)" for n in lines)
    return f"""\
{WAREHOUSE}
{CUSTOMER}
\\set count random(5, 15)
{drawn}
\\set all_local case when {is_local} then 1 else 0 end
BEGIN;
SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = :w_id AND c_d_id = {district} AND c_id = :c_id \\gset
SELECT w_tax FROM warehouse WHERE w_id = :w_id \\gset
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = :w_id AND d_id = {district} FOR UPDATE \\gset
UPDATE district SET d_next_o_id = :d_next_o_id + 1 WHERE d_w_id = :w_id AND d_id = {district};
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (:d_next_o_id, {district}, :w_id, :c_id, current_timestamp, :count, :all_local);
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (:d_next_o_id, {district}, :w_id);
{"".join(order_line(district, n) for n in lines)}\
\\if random(1, 100) = 1
SELECT i_price, i_name, i_data FROM item WHERE i_id = 0;
ROLLBACK;
\\else
COMMIT;
\\endif
"""


def order_line(district: int, n: int) -> str:
    return f"""\
\\if :count >= {n}
\\set quantity random(1, 10)
\\set is_remote case when :supply_{n} = :w_id then 0 else 1 end
SELECT i_price, i_name, i_data FROM item WHERE i_id = :item_{n} \\gset
SELECT s_quantity, s_data, s_dist_{district:02} AS dist FROM stock WHERE s_i_id = :item_{n} AND s_w_id = :supply_{n} FOR UPDATE \\gset
\\set left case when :s_quantity >= :quantity + 10 then :s_quantity - :quantity else :s_quantity - :quantity + 91 end
UPDATE stock SET s_quantity = :left, s_ytd = s_ytd + :quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :is_remote
    WHERE s_i_id = :item_{n} AND s_w_id = :supply_{n};
\\set amount :quantity * :i_price
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
    VALUES (:d_next_o_id, {district}, :w_id, {n}, :item_{n}, :supply_{n}, :quantity, :amount, :dist);
\\endif
"""


def payment() -> str:
    """Fifteen of a hundred by customers of another warehouse; sixty by name."""
    return f"""\
{WAREHOUSE}
\\set d_id random(1, 10)
\\set amount random(100, 500000) / 100.0
\\set is_home case when random(1, 100) <= 85 then 1 else 0 end
\\set c_w_id case when :is_home = 1 then :w_id else random(1, :warehouses) end
\\set c_d_id case when :is_home = 1 then :d_id else random(1, 10) end
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :amount WHERE w_id = :w_id
    RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip \\gset
UPDATE district SET d_ytd = d_ytd + :amount WHERE d_w_id = :w_id AND d_id = :d_id
    RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip \\gset
\\if random(1, 100) <= 60
{BY_NAME}
\\else
{CUSTOMER}
\\endif
SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, c_discount,
    c_balance, c_since FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id FOR UPDATE \\gset
\\if :c_id % 10 = 0
SELECT c_data FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id \\gset
UPDATE customer SET c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
    c_payment_cnt = c_payment_cnt + 1, c_data = :c_data WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
\\else
UPDATE customer SET c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
    c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
\\endif
INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (:c_d_id, :c_w_id, :c_id, :d_id, :w_id, current_timestamp, :amount, :w_name);
COMMIT;
"""


def order_status() -> str:
    return f"""\
\\set c_w_id random(1, :warehouses)
\\set c_d_id random(1, 10)
BEGIN;
\\if random(1, 100) <= 60
{BY_NAME}
\\else
{CUSTOMER}
\\endif
SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id \\gset
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id
    ORDER BY o_id DESC LIMIT 1 \\gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = :c_w_id AND ol_d_id = :c_d_id AND ol_o_id = :o_id;
COMMIT;
"""


def delivery() -> str:
    """One of a warehouse at a time, as the specification's queue has it."""
    of_districts = "".join(f"""\
SELECT coalesce(min(no_o_id), 0) AS o_id FROM new_order WHERE no_w_id = :w_id AND no_d_id = {district} \\gset
\\if :o_id > 0
DELETE FROM new_order WHERE no_w_id = :w_id AND no_d_id = {district} AND no_o_id = :o_id;
SELECT o_c_id FROM orders WHERE o_w_id = :w_id AND o_d_id = {district} AND o_id = :o_id \\gset
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w_id AND o_d_id = {district} AND o_id = :o_id;
UPDATE order_line SET ol_delivery_d = current_timestamp WHERE ol_w_id = :w_id AND ol_d_id = {district} AND ol_o_id = :o_id;
SELECT sum(ol_amount) AS total FROM order_line WHERE ol_w_id = :w_id AND ol_d_id = {district} AND ol_o_id = :o_id \\gset
UPDATE customer SET c_balance = c_balance + :total, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w_id AND c_d_id = {district} AND c_id = :o_c_id;
\\endif
""" for district in range(1, 11))
    return f"""\
{WAREHOUSE}
\\set carrier random(1, 10)
BEGIN;
SELECT pg_advisory_xact_lock(:w_id);
{of_districts}\
COMMIT;
"""


STOCK_LEVEL = f"""\
{WAREHOUSE}
\\set d_id random(1, 10)
\\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id FROM district WHERE d_w_id = :w_id AND d_id = :d_id \\gset
\\set since :d_next_o_id - 20
SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id < :d_next_o_id
    AND ol_o_id >= :since AND s_w_id = :w_id AND s_i_id = ol_i_id AND s_quantity < :threshold;
COMMIT;
"""

# One transaction of pgbench is all of them.
ANALYSES = """\
SELECT ol_number, sum(ol_quantity) AS sum_qty, sum(ol_amount) AS sum_amount, avg(ol_quantity) AS avg_qty, avg(ol_amount) AS avg_amount,
    count(*) AS count_order FROM order_line WHERE ol_delivery_d > timestamp '2007-01-02' GROUP BY ol_number ORDER BY ol_number;
SELECT sum(ol_amount) AS revenue FROM order_line WHERE ol_delivery_d >= timestamp '1999-01-01' AND ol_delivery_d < timestamp '2030-01-01'
    AND ol_quantity BETWEEN 1 AND 100000;
SELECT o_ol_cnt, count(*) AS order_count FROM orders WHERE o_entry_d >= timestamp '2007-01-02' AND EXISTS (
    SELECT * FROM order_line WHERE o_id = ol_o_id AND o_w_id = ol_w_id AND o_d_id = ol_d_id AND ol_delivery_d >= o_entry_d)
    GROUP BY o_ol_cnt ORDER BY o_ol_cnt;
SELECT 100.00 * sum(CASE WHEN i_data LIKE 'ORIGINAL%' THEN ol_amount ELSE 0 END) / (1 + sum(ol_amount)) AS promo_revenue
    FROM order_line, item WHERE ol_i_id = i_id AND ol_delivery_d >= timestamp '2007-01-02';
SELECT c_last, c_id, o_id, sum(ol_amount) FROM customer, orders, order_line WHERE c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id
    AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY o_id, o_w_id, o_d_id, c_id, c_last, o_ol_cnt
    HAVING sum(ol_amount) > 60000 ORDER BY sum(ol_amount) DESC, o_id, c_id LIMIT 100;
"""
# How many queries that is.
ANALYSES_COUNT = ANALYSES.count(";")

# Clause 3.3.2: each has to find nothing.
CONDITIONS = {
    "a warehouse has what its districts have": """
        SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)""",
    "a district's next order follows its last": """
        SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)""",
    "new orders have no gaps": """
        SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)""",
    "orders have all of their lines": """
        SELECT o_w_id, o_d_id FROM orders GROUP BY o_w_id, o_d_id
        HAVING sum(o_ol_cnt) <> (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)""",
    "orders are delivered or new": """
        SELECT o_w_id, o_d_id, o_id FROM orders WHERE (o_carrier_id IS NULL) <> EXISTS (
            SELECT 1 FROM new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id)""",
    "lines are delivered with their orders": """
        SELECT ol_w_id, ol_d_id, ol_o_id FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
        WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)""",
    "payments are in the history": """
        SELECT d_w_id, d_id FROM district WHERE d_ytd - 30000 <> (
            SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id) - 10.00 * :customers""",
}
