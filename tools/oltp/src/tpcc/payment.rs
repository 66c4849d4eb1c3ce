//! The Payment transaction, clause 2.5.

use std::io::Write;

use saki_base::{RowLayout, ValueRef};
use saki_mvcc::{Error, Isolation, Runner};

use super::context::{Context, CustomerChoice, absent};
use super::random::uniform;
use super::schema::{Customer, Tables, district_key, warehouse_key};
use crate::codec::{Key, encode};
use crate::driver::End;

/// Clause 2.5.2.2: the longest `c_data`.
const DATA_MAX: usize = 500;
/// Columns of a customer's body; the last of them is `c_data`.
const CUSTOMER_COLUMNS: usize = 18;

/// The input, and memory to run with.
pub struct Payment {
    district: i16,
    customer: CustomerChoice,
    amount: i64,
    /// The key of the next row of history: the worker's own.
    next_history: i64,
    /// New `c_data`, `h_data` and bodies.
    data: Vec<u8>,
    names: Vec<u8>,
    body: Vec<u8>,
    history_body: Vec<u8>,
}

impl Payment {
    pub fn new(tables: &Tables, worker: usize) -> Self {
        debug_assert_eq!(tables.customer.table.row_layout().columns().len(), CUSTOMER_COLUMNS);
        Self {
            district: 1,
            customer: CustomerChoice::default(),
            amount: 0,
            next_history: (worker as i64) << 40,
            data: Vec::with_capacity(2 * DATA_MAX),
            names: Vec::with_capacity(32),
            body: Vec::new(),
            history_body: Vec::new(),
        }
    }

    /// Clause 2.5.1: 15 of 100 customers are another warehouse's.
    pub fn draw(&mut self, context: &mut Context<'_>) {
        self.district = context.draw_district();
        let is_remote = uniform(&mut context.random, 1, 100) > 85;
        let (warehouse, district) = if is_remote && context.scale.warehouses > 1 {
            (context.draw_other_warehouse(), context.draw_district())
        } else {
            (context.warehouse, self.district)
        };
        self.customer.draw(context, warehouse, district);
        self.amount = i64::from(uniform(&mut context.random, 100, 500_000));
    }

    /// Clause 2.5.2.
    pub fn run(&mut self, context: &Context<'_>, runner: &mut Runner) -> Result<End, Error> {
        let tables = context.tables;
        let (warehouse, district, amount) = (context.warehouse, self.district, self.amount);
        let mut transaction = runner.begin(Isolation::Serializable);
        let found = transaction.get(&tables.warehouse, warehouse_key(warehouse).as_ref());
        let found = found.ok_or_else(|| absent("a warehouse"))?;
        self.names.clear();
        self.names.extend_from_slice(tables.w_name.read(tables.warehouse.row_layout(), found.body));
        self.names.extend_from_slice(b"    ");
        let id = found.id;
        transaction.modify(&tables.warehouse, id, |body| {
            tables.w_ytd.write(body, tables.w_ytd.read(body) + amount);
        })?;
        let found = transaction.get(&tables.district, district_key(warehouse, district).as_ref());
        let found = found.ok_or_else(|| absent("a district"))?;
        self.names.extend_from_slice(tables.d_name.read(tables.district.row_layout(), found.body));
        let id = found.id;
        transaction.modify(&tables.district, id, |body| {
            tables.d_ytd.write(body, tables.d_ytd.read(body) + amount);
        })?;

        let customer = &tables.customer;
        let (number, found) = self.customer.find(&transaction, tables)?;
        let id = found.id;
        let layout = customer.table.row_layout();
        if customer.credit.read(layout, found.body) == b"BC" {
            // Clause 2.5.2.2: bad credit is written down, newest first.
            self.data.clear();
            let CustomerChoice { district: of_district, warehouse: of_warehouse, .. } = self.customer;
            let amount_text = (amount / 100, amount % 100);
            let text = format_args!(
                "{number} {of_district} {of_warehouse} {district} {warehouse} {}.{:02} | ",
                amount_text.0, amount_text.1
            );
            self.data.write_fmt(text).map_err(|_| absent("memory"))?;
            self.data.extend_from_slice(customer.data.read(layout, found.body));
            self.data.truncate(DATA_MAX);
            with_data(customer, layout, found.body, &self.data, &mut self.body)?;
            pay(customer, &mut self.body, amount);
            transaction.update(&customer.table, id, &self.body)?;
        } else {
            transaction.modify(&customer.table, id, |body| pay(customer, body, amount))?;
        }
        let names = std::str::from_utf8(&self.names).map_err(|_| absent("a readable name"))?;
        let values = [
            ValueRef::Int4(number),
            ValueRef::Int2(self.customer.district),
            ValueRef::Int4(self.customer.warehouse),
            ValueRef::Int2(district),
            ValueRef::Int4(warehouse),
            ValueRef::Timestamp(context.now),
            ValueRef::Decimal(i128::from(amount)),
            ValueRef::Text(names),
        ];
        encode(&tables.history.table, &values, &mut self.history_body);
        let key = Key::<8>::new().int8(self.next_history);
        transaction.insert(&tables.history.table, key.as_ref(), &self.history_body)?;
        let receipt = transaction.commit_early()?;
        self.next_history += 1;
        Ok(End::Committed(receipt))
    }
}

#[inline]
fn pay(customer: &Customer, body: &mut [u8], amount: i64) {
    customer.balance.write(body, customer.balance.read(body) - amount);
    customer.ytd_payment.write(body, customer.ytd_payment.read(body) + amount);
    customer.payment_count.write(body, customer.payment_count.read(body) + 1);
}

/// A customer's body with other `c_data`, into `out`.
fn with_data(
    customer: &Customer,
    layout: &RowLayout,
    body: &[u8],
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let view = layout.view(body);
    let mut values = [ValueRef::Null; CUSTOMER_COLUMNS];
    for (column, value) in values.iter_mut().enumerate() {
        *value = view.value(column).map_err(|_| absent("a readable customer"))?;
    }
    values[CUSTOMER_COLUMNS - 1] = ValueRef::Text(std::str::from_utf8(data).map_err(|_| absent("readable data"))?);
    encode(&customer.table, &values, out);
    Ok(())
}
