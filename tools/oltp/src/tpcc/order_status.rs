//! The Order-Status transaction, clause 2.6.

use std::ops::{Bound, ControlFlow};

use saki_mvcc::{Direction, Error, Isolation, KeyRange, Runner};

use super::context::{Context, CustomerChoice, absent};
use super::schema::{NUMBER_AT, numbered_key};
use crate::codec::{Key, int4_of_key};
use crate::driver::End;

/// The input, and what the terminal would show.
#[derive(Default)]
pub struct OrderStatus {
    customer: CustomerChoice,
    shown: i64,
}

impl OrderStatus {
    /// Clause 2.6.1.
    pub fn draw(&mut self, context: &mut Context<'_>) {
        let (warehouse, district) = (context.warehouse, context.draw_district());
        self.customer.draw(context, warehouse, district);
    }

    /// Clause 2.6.2.
    pub fn run(&mut self, context: &Context<'_>, runner: &mut Runner) -> Result<End, Error> {
        let tables = context.tables;
        let transaction = runner.begin(Isolation::Serializable);
        let (number, found) = self.customer.find(&transaction, tables)?;
        let mut shown = tables.customer.balance.read(found.body);
        let CustomerChoice { warehouse, district, .. } = self.customer;
        let first = Key::<16>::new().int4(warehouse).int2(district).int4(number);
        let after = first.after();
        let range = KeyRange::between(Bound::Included(first.as_ref()), Bound::Excluded(after.as_ref()));
        let mut last = None;
        let order = &tables.order;
        transaction.scan_index(&order.table, order.by_customer, &range, Direction::Reverse, |_, found| {
            shown ^= order.entry.read(found.body) ^ i64::from(order.carrier.read(found.body).unwrap_or(0));
            last = Some(int4_of_key(found.key, NUMBER_AT));
            ControlFlow::Break(())
        });
        let last = last.ok_or_else(|| absent("an order of a customer"))?;
        let first = numbered_key(warehouse, district, last);
        let after = numbered_key(warehouse, district, last + 1);
        let range = KeyRange::between(Bound::Included(first.as_ref()), Bound::Excluded(after.as_ref()));
        let line = &tables.order_line;
        transaction.scan(&line.table, &range, Direction::Forward, |found| {
            shown ^= i64::from(line.item.read(found.body)) ^ i64::from(line.supply_warehouse.read(found.body));
            shown ^= i64::from(line.quantity.read(found.body)) ^ line.amount.read(found.body);
            shown ^= line.delivery.read(found.body).unwrap_or(0);
            ControlFlow::Continue(())
        });
        let receipt = transaction.commit_early()?;
        self.shown = shown;
        Ok(End::Committed(receipt))
    }
}
