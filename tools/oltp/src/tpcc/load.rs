//! The initial population (clause 4.3.3.1), whole or scaled down for quick runs.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_base::{Random, ValueRef};
use saki_mvcc::{Database, Durability, Error, Isolation, Runner, Transaction};

use crate::codec::{Key, encode};
use crate::engine::{fill, on_workers, settle, share};
use crate::progress::Progress;
use crate::tpcc::random::{Constants, NonUniform, data, digits, last_name, letters, permutation, uniform, zip};
use crate::tpcc::schema::{
    DISTRICTS, Item, OrderLine, Stock, Tables, district_key, item_key, numbered_key, order_line_key, stock_key,
    warehouse_key,
};

/// Cents.
pub const INITIAL_PAYMENT: i64 = 1_000;

/// How much of everything there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    pub warehouses: i32,
    pub items: i32,
    /// Customers of a district, and as many orders.
    pub customers: i32,
}

impl Scale {
    /// As the specification has it.
    pub const fn whole(warehouses: i32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000 }
    }

    /// A hundredth of it.
    pub const fn small(warehouses: i32) -> Self {
        Self { warehouses, items: 1_000, customers: 30 }
    }

    /// The newest three tenths of the orders are not delivered.
    pub const fn delivered(&self) -> i32 {
        self.customers * 7 / 10
    }

    /// Different last names.
    pub fn last_names(&self) -> i32 {
        self.customers.min(1_000)
    }
}

/// Microseconds since 1970: of all that is there from the beginning.
pub const LOADED_AT: i64 = 1_700_000_000_000_000;

/// Key and body of an item.
pub fn item_row(item: &Item, random: &mut Random, number: i32, key: &mut Vec<u8>, body: &mut Vec<u8>) {
    key.extend_from_slice(item_key(number).as_ref());
    let (name, data) = (letters(random, 14, 24), data(random));
    let values = [
        ValueRef::Int4(uniform(random, 1, 10_000)),
        ValueRef::Text(&name),
        ValueRef::Decimal(i128::from(uniform(random, 100, 10_000))),
        ValueRef::Text(&data),
    ];
    encode(&item.table, &values, body);
}

/// Key and body of a stock.
pub fn stock_row(
    stock: &Stock,
    random: &mut Random,
    warehouse: i32,
    number: i32,
    key: &mut Vec<u8>,
    body: &mut Vec<u8>,
) {
    key.extend_from_slice(stock_key(warehouse, number).as_ref());
    let info: [String; DISTRICTS as usize] = std::array::from_fn(|_| letters(random, 24, 24));
    let quantity = uniform(random, 10, 100);
    let data = data(random);
    let mut values = [ValueRef::Int4(0); 15];
    values[0] = ValueRef::Int4(quantity);
    info.iter().zip(&mut values[1..11]).for_each(|(info, value)| *value = ValueRef::Text(info));
    values[14] = ValueRef::Text(&data);
    encode(&stock.table, &values, body);
}

/// The body of an order line, delivered or not.
pub fn order_line_body(order_line: &OrderLine, line: &Line<'_>, body: &mut Vec<u8>) {
    let values = [
        ValueRef::Int4(line.item),
        ValueRef::Int4(line.supply_warehouse),
        line.delivery.map_or(ValueRef::Null, ValueRef::Timestamp),
        ValueRef::Int4(line.quantity),
        ValueRef::Decimal(i128::from(line.amount)),
        ValueRef::Text(line.info),
    ];
    encode(&order_line.table, &values, body);
}

/// What an order line says.
pub struct Line<'a> {
    pub item: i32,
    pub supply_warehouse: i32,
    pub delivery: Option<i64>,
    pub quantity: i32,
    pub amount: i64,
    pub info: &'a str,
}

/// Fills all tables, each worker its share of the items and whole warehouses; returns the constants to run with.
///
/// # Errors
/// What the engine says.
pub fn load(database: &Database, tables: &Tables, scale: Scale, seed: u64) -> Result<Constants, String> {
    let constants = Constants::draw(&mut Random::new(seed));
    let progress = Progress::new(format!("loading {} warehouses", scale.warehouses));
    let workers = database.placement().workers().len();
    let next = AtomicU64::new(0);
    on_workers(database, |worker, runner| {
        let mut random = Random::new(seed ^ (worker as u64 + 1) << 32);
        items(runner, tables, share(scale.items as u64, worker, workers), &mut random, &progress)?;
        loop {
            let warehouse = next.fetch_add(1, Ordering::Relaxed) as i32 + 1;
            if warehouse > scale.warehouses {
                return Ok(());
            }
            let random = Random::new(seed ^ (warehouse as u64) << 16);
            Population { runner, tables, scale, constants, random, progress: &progress, warehouse }.load()?;
        }
    })?;
    settle(database)?;
    progress.done();
    Ok(constants)
}

fn items(
    runner: &mut Runner,
    tables: &Tables,
    range: Range<u64>,
    random: &mut Random,
    progress: &Progress,
) -> Result<(), Error> {
    fill(runner, &tables.item.table, range, progress, |number, key, body| {
        item_row(&tables.item, random, number as i32 + 1, key, body);
    })
}

/// One warehouse and all that belongs to it.
struct Population<'a> {
    runner: &'a mut Runner,
    tables: &'a Tables,
    scale: Scale,
    constants: Constants,
    random: Random,
    progress: &'a Progress,
    warehouse: i32,
}

/// Name and address, as warehouses, districts and customers have them.
struct Address {
    street_1: String,
    street_2: String,
    city: String,
    state: String,
    zip: String,
}

impl Address {
    fn draw(random: &mut Random) -> Self {
        Self {
            street_1: letters(random, 10, 20),
            street_2: letters(random, 10, 20),
            city: letters(random, 10, 20),
            state: letters(random, 2, 2),
            zip: zip(random),
        }
    }

    fn values(&self) -> [ValueRef<'_>; 5] {
        [&self.street_1, &self.street_2, &self.city, &self.state, &self.zip].map(|text| ValueRef::Text(text))
    }
}

impl Population<'_> {
    fn load(&mut self) -> Result<(), Error> {
        let Self { tables, random, warehouse, .. } = self;
        let warehouse = *warehouse;
        fill(self.runner, &tables.stock.table, 0..self.scale.items as u64, self.progress, |number, key, body| {
            stock_row(&tables.stock, random, warehouse, number as i32 + 1, key, body);
        })?;
        self.warehouse()?;
        (1..=DISTRICTS).try_for_each(|district| {
            self.district(district)?;
            self.customers(district)?;
            self.orders(district)
        })
    }

    fn warehouse(&mut self) -> Result<(), Error> {
        let (name, address) = (letters(&mut self.random, 6, 10), Address::draw(&mut self.random));
        let [street_1, street_2, city, state, zip] = address.values();
        let ytd = i64::from(DISTRICTS) * i64::from(self.scale.customers) * INITIAL_PAYMENT;
        let tax = ValueRef::Decimal(i128::from(uniform(&mut self.random, 0, 2_000)));
        let values =
            [ValueRef::Text(&name), street_1, street_2, city, state, zip, tax, ValueRef::Decimal(i128::from(ytd))];
        let (table, key) = (&self.tables.warehouse, warehouse_key(self.warehouse));
        let mut body = Vec::new();
        encode(table, &values, &mut body);
        self.in_transaction(|transaction| transaction.insert(table, key.as_ref(), &body).map(drop))
    }

    fn district(&mut self, district: i16) -> Result<(), Error> {
        let (name, address) = (letters(&mut self.random, 6, 10), Address::draw(&mut self.random));
        let [street_1, street_2, city, state, zip] = address.values();
        let ytd = i64::from(self.scale.customers) * INITIAL_PAYMENT;
        let tax = ValueRef::Decimal(i128::from(uniform(&mut self.random, 0, 2_000)));
        let next = ValueRef::Int4(self.scale.customers + 1);
        let name = ValueRef::Text(&name);
        let values = [name, street_1, street_2, city, state, zip, tax, ValueRef::Decimal(i128::from(ytd)), next];
        let (table, key) = (&self.tables.district, district_key(self.warehouse, district));
        let mut body = Vec::new();
        encode(table, &values, &mut body);
        self.in_transaction(|transaction| transaction.insert(table, key.as_ref(), &body).map(drop))
    }

    /// Customers and their one payment each.
    fn customers(&mut self, district: i16) -> Result<(), Error> {
        let Self { tables, scale, warehouse, .. } = *self;
        let names = NonUniform::last_names(self.constants.last_name_load, scale.last_names());
        let mut last = Vec::new();
        let random = &mut self.random;
        let count = scale.customers as u64;
        fill(self.runner, &tables.customer.table, 0..count, self.progress, |number, key, body| {
            let number = number as i32 + 1;
            let name = if number <= 1_000 { number - 1 } else { names.next(random) };
            last_name(name.min(scale.last_names() - 1), &mut last);
            key.extend_from_slice(numbered_key(warehouse, district, number).as_ref());
            customer_body(tables, random, std::str::from_utf8(&last).expect("syllables are ASCII"), body);
        })?;
        let first = (i64::from(warehouse) * i64::from(DISTRICTS) + i64::from(district)) * i64::from(scale.customers);
        fill(self.runner, &tables.history.table, 0..count, self.progress, |number, key, body| {
            // Below zero, where no worker's numbers are.
            let id = -1 - first - number as i64;
            key.extend_from_slice(Key::<8>::new().int8(id).as_ref());
            let data = letters(random, 12, 24);
            let values = [
                ValueRef::Int4(number as i32 + 1),
                ValueRef::Int2(district),
                ValueRef::Int4(warehouse),
                ValueRef::Int2(district),
                ValueRef::Int4(warehouse),
                ValueRef::Timestamp(LOADED_AT),
                ValueRef::Decimal(i128::from(INITIAL_PAYMENT)),
                ValueRef::Text(&data),
            ];
            encode(&tables.history.table, &values, body);
        })
    }

    /// Orders, their lines, and those not delivered.
    fn orders(&mut self, district: i16) -> Result<(), Error> {
        let Self { tables, scale, warehouse, .. } = *self;
        let customers = permutation(&mut self.random, scale.customers);
        let mut body = Vec::new();
        for (number, customer) in (1..).zip(customers) {
            let lines = uniform(&mut self.random, 5, 15);
            let delivered = number <= scale.delivered();
            let carrier = uniform(&mut self.random, 1, 10);
            let mut random = self.random.fork();
            self.in_transaction(|transaction| {
                let key = numbered_key(warehouse, district, number);
                let values = [
                    ValueRef::Int4(customer),
                    ValueRef::Timestamp(LOADED_AT),
                    if delivered { ValueRef::Int4(carrier) } else { ValueRef::Null },
                    ValueRef::Int4(lines),
                    ValueRef::Int4(1),
                ];
                encode(&tables.order.table, &values, &mut body);
                transaction.insert(&tables.order.table, key.as_ref(), &body)?;
                if !delivered {
                    encode(&tables.new_order, &[], &mut body);
                    transaction.insert(&tables.new_order, key.as_ref(), &body)?;
                }
                for line in 1..=lines {
                    let row = Line {
                        item: uniform(&mut random, 1, scale.items),
                        supply_warehouse: warehouse,
                        delivery: delivered.then_some(LOADED_AT),
                        quantity: 5,
                        amount: if delivered { 0 } else { i64::from(uniform(&mut random, 1, 999_999)) },
                        info: &letters(&mut random, 24, 24),
                    };
                    order_line_body(&tables.order_line, &row, &mut body);
                    let key = order_line_key(warehouse, district, number, line as i16);
                    transaction.insert(&tables.order_line.table, key.as_ref(), &body)?;
                }
                Ok(())
            })?;
            self.progress.at(|| format!("order {number} of district {district} of warehouse {warehouse}"));
        }
        Ok(())
    }

    fn in_transaction(&mut self, work: impl FnOnce(&mut Transaction<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut transaction = self.runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
        work(&mut transaction)?;
        // Whoever comes later waits for more than this.
        transaction.commit_early().map(drop)
    }
}

fn customer_body(tables: &Tables, random: &mut Random, last: &str, body: &mut Vec<u8>) {
    let (first, address) = (letters(random, 8, 16), Address::draw(random));
    let [street_1, street_2, city, state, zip] = address.values();
    let phone = digits(random, 16, 16);
    let credit = if uniform(random, 1, 10) == 1 { "BC" } else { "GC" };
    let data = letters(random, 300, 500);
    let values = [
        ValueRef::Text(&first),
        ValueRef::Text("OE"),
        ValueRef::Text(last),
        street_1,
        street_2,
        city,
        state,
        zip,
        ValueRef::Text(&phone),
        ValueRef::Timestamp(LOADED_AT),
        ValueRef::Text(credit),
        ValueRef::Decimal(5_000_000),
        ValueRef::Decimal(i128::from(uniform(random, 0, 5_000))),
        ValueRef::Decimal(i128::from(-INITIAL_PAYMENT)),
        ValueRef::Decimal(i128::from(INITIAL_PAYMENT)),
        ValueRef::Int4(1),
        ValueRef::Int4(0),
        ValueRef::Text(&data),
    ];
    encode(&tables.customer.table, &values, body);
}
