//! The Delivery transaction, clause 2.7, all ten districts in one.

use std::ops::{Bound, ControlFlow};

use saki_mvcc::{Direction, Error, Isolation, KeyRange, RowId, Runner};

use super::context::{Context, absent};
use super::random::uniform;
use super::schema::{DISTRICTS, NUMBER_AT, district_key, numbered_key};
use crate::codec::int4_of_key;
use crate::driver::End;

/// The input, and memory to run with.
#[derive(Default)]
pub struct Delivery {
    carrier: i32,
    lines: Vec<RowId>,
    /// Orders delivered by what has committed.
    delivered: u64,
}

impl Delivery {
    /// Orders delivered so far.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Clause 2.7.1.
    pub fn draw(&mut self, context: &mut Context<'_>) {
        self.carrier = uniform(&mut context.random, 1, 10);
    }

    /// Clause 2.7.4.
    pub fn run(&mut self, context: &Context<'_>, runner: &mut Runner) -> Result<End, Error> {
        let tables = context.tables;
        let warehouse = context.warehouse;
        let mut delivered = 0;
        let mut transaction = runner.begin(Isolation::Serializable);
        for district in 1..=DISTRICTS {
            let (first, after) = (district_key(warehouse, district), district_key(warehouse, district + 1));
            let range = KeyRange::between(Bound::Included(first.as_ref()), Bound::Excluded(after.as_ref()));
            let mut oldest = None;
            transaction.scan(&tables.new_order, &range, Direction::Forward, |found| {
                oldest = Some((found.id, int4_of_key(found.key, NUMBER_AT)));
                ControlFlow::Break(())
            });
            // A district without orders to deliver is passed over.
            let Some((id, number)) = oldest else { continue };
            transaction.delete(&tables.new_order, id)?;

            let order = &tables.order;
            let key = numbered_key(warehouse, district, number);
            let found = transaction.get(&order.table, key.as_ref()).ok_or_else(|| absent("an order"))?;
            let (id, customer) = (found.id, order.customer.read(found.body));
            transaction.modify(&order.table, id, |body| order.carrier.write(body, self.carrier))?;

            let line = &tables.order_line;
            let after = numbered_key(warehouse, district, number + 1);
            let range = KeyRange::between(Bound::Included(key.as_ref()), Bound::Excluded(after.as_ref()));
            let mut amount = 0;
            self.lines.clear();
            transaction.scan(&line.table, &range, Direction::Forward, |found| {
                amount += line.amount.read(found.body);
                self.lines.push(found.id);
                ControlFlow::Continue(())
            });
            for id in &self.lines {
                transaction.modify(&line.table, *id, |body| line.delivery.write(body, context.now))?;
            }

            let of = &tables.customer;
            let key = numbered_key(warehouse, district, customer);
            let found = transaction.get(&of.table, key.as_ref()).ok_or_else(|| absent("a customer"))?;
            let id = found.id;
            transaction.modify(&of.table, id, |body| {
                of.balance.write(body, of.balance.read(body) + amount);
                of.delivery_count.write(body, of.delivery_count.read(body) + 1);
            })?;
            delivered += 1;
        }
        let receipt = transaction.commit_early()?;
        self.delivered += delivered;
        Ok(End::Committed(receipt))
    }
}
