//! The nine tables of TPC-C (clause 1.3), and where the columns are that transactions touch.
//!
//! Keys are integers, district and line numbers small ones; money is numeric with two decimals, so an integer of cents.
//! History has no key in the specification: ours is a number of the worker's own. Customers are also found by last name
//! and then first name, orders by customer.

use saki_base::DataType::{self, Char, Int2, Int4, Int8, Timestamp, Varchar};
use saki_base::ValueRef;
use saki_mvcc::{Database, IndexId, Table, TableDefinition};

use crate::codec::{Key, NullablePlace, Place, Variable, column, define, indexed, nullable, template};

/// Districts of a warehouse.
pub const DISTRICTS: i16 = 10;

const MONEY: DataType = DataType::Decimal { precision: 12, scale: 2 };
const RATE: DataType = DataType::Decimal { precision: 4, scale: 4 };

/// Key of the longest index entry that transactions ask for.
pub type RowKey = Key<24>;

pub fn warehouse_key(warehouse: i32) -> RowKey {
    RowKey::new().int4(warehouse)
}

pub fn district_key(warehouse: i32, district: i16) -> RowKey {
    RowKey::new().int4(warehouse).int2(district)
}

/// Of customers, orders and new orders alike.
#[inline]
pub fn numbered_key(warehouse: i32, district: i16, number: i32) -> RowKey {
    RowKey::new().int4(warehouse).int2(district).int4(number)
}

/// Where a district is in the keys of what belongs to it.
pub const DISTRICT_AT: usize = 4;
/// Where the number is in the keys of customers, orders, new orders and order lines.
pub const NUMBER_AT: usize = 6;

#[inline]
pub fn order_line_key(warehouse: i32, district: i16, order: i32, line: i16) -> RowKey {
    numbered_key(warehouse, district, order).int2(line)
}

#[inline]
pub fn item_key(item: i32) -> RowKey {
    RowKey::new().int4(item)
}

#[inline]
pub fn stock_key(warehouse: i32, item: i32) -> RowKey {
    RowKey::new().int4(warehouse).int4(item)
}

/// Items: about 80 bytes.
pub fn item_definition() -> TableDefinition {
    define(
        "item",
        1,
        &[
            column("i_id", Int4),
            column("i_im_id", Int4),
            column("i_name", Varchar(24)),
            column("i_price", DataType::Decimal { precision: 5, scale: 2 }),
            column("i_data", Varchar(50)),
        ],
    )
}

/// Stocks: about 300 bytes, most of them what is printed on the lines of orders from each district.
pub fn stock_definition() -> TableDefinition {
    define(
        "stock",
        2,
        &[
            column("s_w_id", Int4),
            column("s_i_id", Int4),
            column("s_quantity", Int4),
            column("s_dist_01", Char(24)),
            column("s_dist_02", Char(24)),
            column("s_dist_03", Char(24)),
            column("s_dist_04", Char(24)),
            column("s_dist_05", Char(24)),
            column("s_dist_06", Char(24)),
            column("s_dist_07", Char(24)),
            column("s_dist_08", Char(24)),
            column("s_dist_09", Char(24)),
            column("s_dist_10", Char(24)),
            column("s_ytd", Int4),
            column("s_order_cnt", Int4),
            column("s_remote_cnt", Int4),
            column("s_data", Varchar(50)),
        ],
    )
}

/// Lines of orders.
pub fn order_line_definition() -> TableDefinition {
    define(
        "order_line",
        4,
        &[
            column("ol_w_id", Int4),
            column("ol_d_id", Int2),
            column("ol_o_id", Int4),
            column("ol_number", Int2),
            column("ol_i_id", Int4),
            column("ol_supply_w_id", Int4),
            nullable("ol_delivery_d", Timestamp),
            column("ol_quantity", Int4),
            column("ol_amount", DataType::Decimal { precision: 6, scale: 2 }),
            column("ol_dist_info", Char(24)),
        ],
    )
}

fn warehouse_definition() -> TableDefinition {
    define(
        "warehouse",
        1,
        &[
            column("w_id", Int4),
            column("w_name", Varchar(10)),
            column("w_street_1", Varchar(20)),
            column("w_street_2", Varchar(20)),
            column("w_city", Varchar(20)),
            column("w_state", Char(2)),
            column("w_zip", Char(9)),
            column("w_tax", RATE),
            column("w_ytd", MONEY),
        ],
    )
}

fn district_definition() -> TableDefinition {
    define(
        "district",
        2,
        &[
            column("d_w_id", Int4),
            column("d_id", Int2),
            column("d_name", Varchar(10)),
            column("d_street_1", Varchar(20)),
            column("d_street_2", Varchar(20)),
            column("d_city", Varchar(20)),
            column("d_state", Char(2)),
            column("d_zip", Char(9)),
            column("d_tax", RATE),
            column("d_ytd", MONEY),
            column("d_next_o_id", Int4),
        ],
    )
}

fn customer_definition() -> TableDefinition {
    let definition = define(
        "customer",
        3,
        &[
            column("c_w_id", Int4),
            column("c_d_id", Int2),
            column("c_id", Int4),
            column("c_first", Varchar(16)),
            column("c_middle", Char(2)),
            column("c_last", Varchar(16)),
            column("c_street_1", Varchar(20)),
            column("c_street_2", Varchar(20)),
            column("c_city", Varchar(20)),
            column("c_state", Char(2)),
            column("c_zip", Char(9)),
            column("c_phone", Char(16)),
            column("c_since", Timestamp),
            column("c_credit", Char(2)),
            column("c_credit_lim", MONEY),
            column("c_discount", RATE),
            column("c_balance", MONEY),
            column("c_ytd_payment", MONEY),
            column("c_payment_cnt", Int4),
            column("c_delivery_cnt", Int4),
            column("c_data", Varchar(500)),
        ],
    );
    indexed(definition, "customer_name", &["c_w_id", "c_d_id", "c_last", "c_first"])
}

fn history_definition() -> TableDefinition {
    define(
        "history",
        1,
        &[
            column("h_id", Int8),
            column("h_c_id", Int4),
            column("h_c_d_id", Int2),
            column("h_c_w_id", Int4),
            column("h_d_id", Int2),
            column("h_w_id", Int4),
            column("h_date", Timestamp),
            column("h_amount", DataType::Decimal { precision: 6, scale: 2 }),
            column("h_data", Varchar(24)),
        ],
    )
}

fn new_order_definition() -> TableDefinition {
    define("new_order", 3, &[column("no_w_id", Int4), column("no_d_id", Int2), column("no_o_id", Int4)])
}

fn order_definition() -> TableDefinition {
    let definition = define(
        "orders",
        3,
        &[
            column("o_w_id", Int4),
            column("o_d_id", Int2),
            column("o_id", Int4),
            column("o_c_id", Int4),
            column("o_entry_d", Timestamp),
            nullable("o_carrier_id", Int4),
            column("o_ol_cnt", Int4),
            column("o_all_local", Int4),
        ],
    );
    indexed(definition, "orders_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])
}

/// Items and where their columns are.
#[derive(Clone)]
pub struct Item {
    pub table: Table,
    pub price: Place<i64>,
    pub name: Variable,
    pub data: Variable,
}

impl Item {
    pub fn of(table: Table) -> Self {
        let (name, data) = (Variable::of(&table, "i_name"), Variable::of(&table, "i_data"));
        Self { price: Place::of(&table, "i_price"), name, data, table }
    }
}

/// Stocks and where their columns are.
#[derive(Clone)]
pub struct Stock {
    pub table: Table,
    pub quantity: Place<i32>,
    pub ytd: Place<i32>,
    pub order_count: Place<i32>,
    pub remote_count: Place<i32>,
    pub districts: [Variable; DISTRICTS as usize],
    pub data: Variable,
}

impl Stock {
    pub fn of(table: Table) -> Self {
        Self {
            quantity: Place::of(&table, "s_quantity"),
            ytd: Place::of(&table, "s_ytd"),
            order_count: Place::of(&table, "s_order_cnt"),
            remote_count: Place::of(&table, "s_remote_cnt"),
            districts: std::array::from_fn(|district| Variable::of(&table, &format!("s_dist_{:02}", district + 1))),
            data: Variable::of(&table, "s_data"),
            table,
        }
    }

    /// What is printed on the lines of orders from a district.
    #[inline]
    pub fn district<'a>(&'a self, body: &'a [u8], district: i16) -> &'a [u8] {
        self.districts[district as usize - 1].read(self.table.row_layout(), body)
    }

    /// Clause 2.4.2.2: `quantity` pieces are ordered.
    #[inline]
    pub fn order(&self, body: &mut [u8], quantity: i32, is_remote: bool) {
        let left = self.quantity.read(body) - quantity;
        self.quantity.write(body, if left >= 10 { left } else { left + 91 });
        self.ytd.write(body, self.ytd.read(body) + quantity);
        self.order_count.write(body, self.order_count.read(body) + 1);
        self.remote_count.write(body, self.remote_count.read(body) + i32::from(is_remote));
    }
}

/// Lines of orders and where their columns are.
#[derive(Clone)]
pub struct OrderLine {
    pub table: Table,
    pub item: Place<i32>,
    pub supply_warehouse: Place<i32>,
    pub delivery: NullablePlace<i64>,
    pub quantity: Place<i32>,
    pub amount: Place<i64>,
}

/// Bytes of `ol_dist_info`, and where every row of order lines ends.
pub const DISTRICT_INFO_BYTES: usize = 24;

impl OrderLine {
    pub fn of(table: Table) -> Self {
        Self {
            item: Place::of(&table, "ol_i_id"),
            supply_warehouse: Place::of(&table, "ol_supply_w_id"),
            delivery: NullablePlace::of(&table, "ol_delivery_d"),
            quantity: Place::of(&table, "ol_quantity"),
            amount: Place::of(&table, "ol_amount"),
            table,
        }
    }

    /// The body of an undelivered line, for [`write`](Self::write) to make others of.
    pub fn template(&self) -> Vec<u8> {
        let info = "x".repeat(DISTRICT_INFO_BYTES);
        let values = [
            ValueRef::Int4(0),
            ValueRef::Int4(0),
            ValueRef::Null,
            ValueRef::Int4(0),
            ValueRef::Decimal(0),
            ValueRef::Text(&info),
        ];
        template(&self.table, &values)
    }

    /// Turns the body of an undelivered line into that of another.
    #[inline]
    pub fn write(&self, body: &mut [u8], item: i32, supply: i32, quantity: i32, amount: i64, info: &[u8]) {
        self.item.write(body, item);
        self.supply_warehouse.write(body, supply);
        self.quantity.write(body, quantity);
        self.amount.write(body, amount);
        let info_at = body.len() - DISTRICT_INFO_BYTES;
        body[info_at..].copy_from_slice(info);
    }
}

/// Customers and where their columns are.
#[derive(Clone)]
pub struct Customer {
    pub table: Table,
    pub by_name: IndexId,
    pub last: Variable,
    pub credit: Variable,
    pub discount: Place<i64>,
    pub balance: Place<i64>,
    pub ytd_payment: Place<i64>,
    pub payment_count: Place<i32>,
    pub delivery_count: Place<i32>,
    pub data: Variable,
}

/// Orders and where their columns are.
#[derive(Clone)]
pub struct Order {
    pub table: Table,
    pub by_customer: IndexId,
    pub customer: Place<i32>,
    pub entry: Place<i64>,
    pub carrier: NullablePlace<i32>,
    pub line_count: Place<i32>,
    pub all_local: Place<i32>,
}

/// History and where its columns are.
#[derive(Clone)]
pub struct History {
    pub table: Table,
    pub customer: Place<i32>,
    pub customer_district: Place<i16>,
    pub customer_warehouse: Place<i32>,
    pub district: Place<i16>,
    pub warehouse: Place<i32>,
    pub amount: Place<i64>,
}

/// All nine.
#[derive(Clone)]
pub struct Tables {
    pub warehouse: Table,
    pub w_tax: Place<i64>,
    pub w_ytd: Place<i64>,
    pub w_name: Variable,
    pub district: Table,
    pub d_tax: Place<i64>,
    pub d_ytd: Place<i64>,
    pub d_next_order: Place<i32>,
    pub d_name: Variable,
    pub customer: Customer,
    pub history: History,
    pub new_order: Table,
    pub order: Order,
    pub order_line: OrderLine,
    pub item: Item,
    pub stock: Stock,
}

impl Tables {
    /// Makes the tables in a database, or finds them there.
    ///
    /// # Errors
    /// What the engine says.
    pub fn of(database: &Database) -> Result<Self, String> {
        let table = |definition: TableDefinition| match database.table(&definition.name) {
            Some(table) => Ok(table),
            None => database.create_table(definition).map_err(|error| error.to_string()),
        };
        let (warehouse, district) = (table(warehouse_definition())?, table(district_definition())?);
        let customer = table(customer_definition())?;
        let history = table(history_definition())?;
        let order = table(order_definition())?;
        Ok(Self {
            w_tax: Place::of(&warehouse, "w_tax"),
            w_ytd: Place::of(&warehouse, "w_ytd"),
            w_name: Variable::of(&warehouse, "w_name"),
            d_tax: Place::of(&district, "d_tax"),
            d_ytd: Place::of(&district, "d_ytd"),
            d_next_order: Place::of(&district, "d_next_o_id"),
            d_name: Variable::of(&district, "d_name"),
            customer: Customer {
                by_name: customer.index("customer_name").expect("just defined"),
                last: Variable::of(&customer, "c_last"),
                credit: Variable::of(&customer, "c_credit"),
                discount: Place::of(&customer, "c_discount"),
                balance: Place::of(&customer, "c_balance"),
                ytd_payment: Place::of(&customer, "c_ytd_payment"),
                payment_count: Place::of(&customer, "c_payment_cnt"),
                delivery_count: Place::of(&customer, "c_delivery_cnt"),
                data: Variable::of(&customer, "c_data"),
                table: customer,
            },
            history: History {
                customer: Place::of(&history, "h_c_id"),
                customer_district: Place::of(&history, "h_c_d_id"),
                customer_warehouse: Place::of(&history, "h_c_w_id"),
                district: Place::of(&history, "h_d_id"),
                warehouse: Place::of(&history, "h_w_id"),
                amount: Place::of(&history, "h_amount"),
                table: history,
            },
            new_order: table(new_order_definition())?,
            order: Order {
                by_customer: order.index("orders_customer").expect("just defined"),
                customer: Place::of(&order, "o_c_id"),
                entry: Place::of(&order, "o_entry_d"),
                carrier: NullablePlace::of(&order, "o_carrier_id"),
                line_count: Place::of(&order, "o_ol_cnt"),
                all_local: Place::of(&order, "o_all_local"),
                table: order,
            },
            order_line: OrderLine::of(table(order_line_definition())?),
            item: Item::of(table(item_definition())?),
            stock: Stock::of(table(stock_definition())?),
            warehouse,
            district,
        })
    }
}
