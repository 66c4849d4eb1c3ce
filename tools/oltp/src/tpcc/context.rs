//! What the five transactions share: where they are, and how they find customers.

use std::ops::{Bound, ControlFlow};
use std::time::{SystemTime, UNIX_EPOCH};

use saki_base::Random;
use saki_mvcc::{Direction, Error, Found, KeyRange, RowId, Transaction};

use super::load::Scale;
use super::random::{Constants, NonUniform, last_name, uniform};
use super::schema::{DISTRICTS, NUMBER_AT, Tables, numbered_key};
use crate::codec::{Key, int4_of_key};

/// A worker's surroundings.
pub struct Context<'t> {
    pub tables: &'t Tables,
    pub scale: Scale,
    pub random: Random,
    pub items: NonUniform,
    customers: NonUniform,
    last_names: NonUniform,
    worker: i32,
    workers: i32,
    /// Of the transaction at hand.
    pub warehouse: i32,
    /// When it was asked for, in microseconds since 1970.
    pub now: i64,
}

/// How a client names a customer.
#[derive(Clone, Debug, Default)]
pub struct CustomerChoice {
    pub warehouse: i32,
    pub district: i16,
    /// Unless by name.
    number: i32,
    /// Empty unless by name.
    name: Vec<u8>,
    found: Vec<(RowId, i32)>,
}

impl<'t> Context<'t> {
    pub fn new(
        tables: &'t Tables,
        scale: Scale,
        constants: Constants,
        worker: usize,
        workers: usize,
        random: Random,
    ) -> Self {
        Self {
            tables,
            scale,
            random,
            items: NonUniform::items(&constants, scale.items),
            customers: NonUniform::customers(&constants, scale.customers),
            last_names: NonUniform::last_names(constants.last_name, scale.last_names()),
            worker: worker as i32,
            workers: workers as i32,
            warehouse: 1,
            now: 0,
        }
    }

    /// Goes to the next transaction: to one of the worker's own warehouses, or where there are too few, to one it
    /// shares.
    #[inline]
    pub fn draw(&mut self) {
        let own = (self.scale.warehouses - self.worker + self.workers - 1) / self.workers;
        self.warehouse = match own {
            ..=0 => self.worker % self.scale.warehouses + 1,
            1 => self.worker + 1,
            _ => self.worker + 1 + self.workers * uniform(&mut self.random, 0, own - 1),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.now = now.map_or(0, |since| since.as_micros() as i64);
    }

    #[inline]
    pub fn draw_district(&mut self) -> i16 {
        uniform(&mut self.random, 1, i32::from(DISTRICTS)) as i16
    }

    #[inline]
    pub fn draw_customer(&mut self) -> i32 {
        self.customers.next(&mut self.random)
    }

    /// Any warehouse but the one at hand; that one if there is no other.
    pub fn draw_other_warehouse(&mut self) -> i32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let other = uniform(&mut self.random, 1, self.scale.warehouses - 1);
        if other < self.warehouse { other } else { other + 1 }
    }
}

impl CustomerChoice {
    /// Clauses 2.5.1.2 and 2.6.1.2: six of ten by last name, the others by number.
    pub fn draw(&mut self, context: &mut Context<'_>, warehouse: i32, district: i16) {
        (self.warehouse, self.district) = (warehouse, district);
        self.name.clear();
        if uniform(&mut context.random, 1, 100) <= 60 {
            last_name(context.last_names.next(&mut context.random), &mut self.name);
        } else {
            self.number = context.draw_customer();
        }
    }

    /// The customer: if by name, the one in the middle of those of that name, by first name (clause 2.5.2.2). Number
    /// and row.
    pub fn find<'a>(&mut self, transaction: &'a Transaction<'_>, tables: &Tables) -> Result<(i32, Found<'a>), Error> {
        let customer = &tables.customer;
        if self.name.is_empty() {
            let key = numbered_key(self.warehouse, self.district, self.number);
            let found = transaction.get(&customer.table, key.as_ref()).ok_or_else(|| absent("a customer"))?;
            return Ok((self.number, found));
        }
        let first = Key::<32>::new().int4(self.warehouse).int2(self.district).text(&self.name);
        let after = first.after();
        let range = KeyRange::between(Bound::Included(first.as_ref()), Bound::Excluded(after.as_ref()));
        self.found.clear();
        transaction.scan_index(&customer.table, customer.by_name, &range, Direction::Forward, |_, found| {
            self.found.push((found.id, int4_of_key(found.key, NUMBER_AT)));
            ControlFlow::Continue(())
        });
        let middle = self.found.len().saturating_sub(1) / 2;
        let (id, number) = *self.found.get(middle).ok_or_else(|| absent("a customer of that name"))?;
        let found = transaction.see_again(&customer.table, id)?.ok_or_else(|| absent("a customer just seen"))?;
        Ok((number, found))
    }
}

#[cold]
pub fn absent(what: &str) -> Error {
    Error::Procedure { message: format!("{what} that has to be there is not") }
}
