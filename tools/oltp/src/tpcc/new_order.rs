//! The New-Order transaction, clause 2.4.

use saki_base::ValueRef;
use saki_mvcc::{Error, Isolation, RowId, Runner};

use super::context::{Context, absent};
use super::random::{is_original, uniform};
use super::schema::{
    DISTRICT_INFO_BYTES, RowKey, Tables, district_key, item_key, numbered_key, order_line_key, stock_key, warehouse_key,
};
use crate::codec::template;
use crate::driver::End;

const LINES_MAX: usize = 15;

/// The input, and memory to run with.
pub struct NewOrder {
    batched: bool,
    district: i16,
    customer: i32,
    count: usize,
    all_local: bool,
    lines: [Line; LINES_MAX],
    item_keys: [RowKey; LINES_MAX],
    stock_keys: [RowKey; LINES_MAX],
    order_body: Vec<u8>,
    line_body: Vec<u8>,
    /// What the terminal would show.
    total: i64,
}

#[derive(Clone, Copy)]
struct Line {
    item: i32,
    supply_warehouse: i32,
    quantity: i32,
    /// `None` until it was found: one item in a hundred orders does not exist.
    price: Option<i64>,
    is_original: bool,
    stock: Option<RowId>,
    info: [u8; DISTRICT_INFO_BYTES],
}

const NO_LINE: Line = Line {
    item: 0,
    supply_warehouse: 0,
    quantity: 0,
    price: None,
    is_original: false,
    stock: None,
    info: [b' '; DISTRICT_INFO_BYTES],
};

impl NewOrder {
    pub fn new(tables: &Tables, batched: bool) -> Self {
        let order = [ValueRef::Int4(0), ValueRef::Timestamp(0), ValueRef::Null, ValueRef::Int4(0), ValueRef::Int4(0)];
        Self {
            batched,
            district: 1,
            customer: 1,
            count: 0,
            all_local: true,
            lines: [NO_LINE; LINES_MAX],
            item_keys: [RowKey::new(); LINES_MAX],
            stock_keys: [RowKey::new(); LINES_MAX],
            order_body: template(&tables.order.table, &order),
            line_body: tables.order_line.template(),
            total: 0,
        }
    }

    /// Clause 2.4.1.
    pub fn draw(&mut self, context: &mut Context<'_>) {
        self.district = context.draw_district();
        self.customer = context.draw_customer();
        self.count = uniform(&mut context.random, 5, LINES_MAX as i32) as usize;
        self.all_local = true;
        let is_rolled_back = uniform(&mut context.random, 1, 100) == 1;
        for number in 0..self.count {
            let is_unused = is_rolled_back && number + 1 == self.count;
            let item = if is_unused { context.scale.items + 1 } else { context.items.next(&mut context.random) };
            let is_remote = uniform(&mut context.random, 1, 100) == 1;
            let supply_warehouse = if is_remote { context.draw_other_warehouse() } else { context.warehouse };
            self.all_local &= supply_warehouse == context.warehouse;
            let quantity = uniform(&mut context.random, 1, 10);
            self.lines[number] = Line { item, supply_warehouse, quantity, ..NO_LINE };
            self.item_keys[number] = item_key(item);
            self.stock_keys[number] = stock_key(supply_warehouse, item);
        }
    }

    /// Clause 2.4.2.
    pub fn run(&mut self, context: &Context<'_>, runner: &mut Runner) -> Result<End, Error> {
        let Tables { customer, item, stock, order, order_line, .. } = context.tables;
        let tables = context.tables;
        let warehouse = context.warehouse;
        let mut transaction = runner.begin(Isolation::Serializable);
        let found = transaction.get(&tables.warehouse, warehouse_key(warehouse).as_ref());
        let tax = tables.w_tax.read(found.ok_or_else(|| absent("a warehouse"))?.body);
        let found = transaction.get(&tables.district, district_key(warehouse, self.district).as_ref());
        let found = found.ok_or_else(|| absent("a district"))?;
        let (id, number) = (found.id, tables.d_next_order.read(found.body));
        let tax = 10_000 + tax + tables.d_tax.read(found.body);
        transaction.modify(&tables.district, id, |body| tables.d_next_order.write(body, number + 1))?;
        let key = numbered_key(warehouse, self.district, self.customer);
        let found = transaction.get(&customer.table, key.as_ref()).ok_or_else(|| absent("a customer"))?;
        let discount = 10_000 - customer.discount.read(found.body);
        let key = numbered_key(warehouse, self.district, number);
        order.customer.write(&mut self.order_body, self.customer);
        order.entry.write(&mut self.order_body, context.now);
        order.line_count.write(&mut self.order_body, self.count as i32);
        order.all_local.write(&mut self.order_body, i32::from(self.all_local));
        transaction.insert(&order.table, key.as_ref(), &self.order_body)?;
        transaction.insert(&tables.new_order, key.as_ref(), &[])?;

        let lines = &mut self.lines[..self.count];
        lines.iter_mut().for_each(|line| line.price = None);
        if self.batched {
            transaction.get_many(&item.table, &self.item_keys[..self.count], |line, found| {
                if let Some(found) = found {
                    lines[line].see_item(tables, found.body);
                }
            });
            transaction.get_many(&stock.table, &self.stock_keys[..self.count], |line, found| {
                if let Some(found) = found {
                    lines[line].stock = Some(found.id);
                    lines[line].see_stock(tables, found.body, self.district);
                }
            });
        }
        let mut total = 0;
        for (position, line) in lines.iter_mut().enumerate() {
            if !self.batched {
                if let Some(found) = transaction.get(&item.table, self.item_keys[position].as_ref()) {
                    line.see_item(tables, found.body);
                }
                if let Some(found) = transaction.get(&stock.table, self.stock_keys[position].as_ref()) {
                    line.stock = Some(found.id);
                    line.see_stock(tables, found.body, self.district);
                }
            }
            // Clause 2.4.2.3: an unused item ends the order, and nothing of it stays.
            let Some(price) = line.price else {
                transaction.abort();
                return Ok(End::RolledBack);
            };
            let id = line.stock.ok_or_else(|| absent("a stock"))?;
            let is_remote = line.supply_warehouse != warehouse;
            transaction.modify(&stock.table, id, |body| stock.order(body, line.quantity, is_remote))?;
            let amount = price * i64::from(line.quantity);
            total += amount;
            let body = &mut self.line_body;
            order_line.write(body, line.item, line.supply_warehouse, line.quantity, amount, &line.info);
            let key = order_line_key(warehouse, self.district, number, position as i16 + 1);
            transaction.insert(&order_line.table, key.as_ref(), body)?;
        }
        let receipt = transaction.commit_early()?;
        self.total = total * discount / 10_000 * tax / 10_000;
        Ok(End::Committed(receipt))
    }
}

impl Line {
    #[inline]
    fn see_item(&mut self, tables: &Tables, body: &[u8]) {
        let item = &tables.item;
        self.price = Some(item.price.read(body));
        self.is_original = is_original(item.data.read(item.table.row_layout(), body));
    }

    #[inline]
    fn see_stock(&mut self, tables: &Tables, body: &[u8], district: i16) {
        let stock = &tables.stock;
        self.info.copy_from_slice(stock.district(body, district));
        self.is_original = self.is_original && is_original(stock.data.read(stock.table.row_layout(), body));
    }
}
