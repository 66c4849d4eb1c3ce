//! One worker's orders.

use saki_base::Random;
use saki_mvcc::{Database, Error, Isolation, RowId, Runner, TableDefinition};

use crate::driver::{End, Work};
use crate::engine::{fill, on_workers, settle, share};
use crate::progress::Progress;
use crate::tpcc::load::{item_row, stock_row};
use crate::tpcc::random::{Constants, NonUniform, is_original, uniform};
use crate::tpcc::schema::{
    DISTRICT_INFO_BYTES, DISTRICTS, Item, OrderLine, RowKey, Stock, item_definition, item_key, order_line_definition,
    order_line_key, stock_definition, stock_key,
};

/// Lines of the longest order.
const LINES_MAX: usize = 15;

/// The three tables of the workload.
#[derive(Clone)]
pub struct Tables {
    pub item: Item,
    pub stock: Stock,
    pub order_line: OrderLine,
}

impl Tables {
    /// Makes them in a database, or finds them there.
    ///
    /// # Errors
    /// What the engine says.
    pub fn create(database: &Database) -> Result<Self, String> {
        let table = |definition: TableDefinition| match database.table(&definition.name) {
            Some(table) => Ok(table),
            None => database.create_table(definition).map_err(|error| error.to_string()),
        };
        Ok(Self {
            item: Item::of(table(item_definition())?),
            stock: Stock::of(table(stock_definition())?),
            order_line: OrderLine::of(table(order_line_definition())?),
        })
    }
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    pub warehouses: i32,
    pub items: i32,
}

/// Fills items and stocks, each worker its share.
///
/// # Errors
/// What the engine says.
pub fn load(database: &Database, tables: &Tables, scale: Scale, seed: u64) -> Result<(), String> {
    let progress = Progress::new(format!("loading {} warehouses of {} items", scale.warehouses, scale.items));
    let workers = database.placement().workers().len();
    on_workers(database, |worker, runner| {
        let mut random = Random::new(seed ^ (worker as u64 + 1) << 32);
        let items = share(scale.items as u64, worker, workers);
        fill(runner, &tables.item.table, items, &progress, |number, key, body| {
            item_row(&tables.item, &mut random, number as i32 + 1, key, body);
        })?;
        let stocks = share(scale.items as u64 * scale.warehouses as u64, worker, workers);
        fill(runner, &tables.stock.table, stocks, &progress, |number, key, body| {
            let (warehouse, item) = (number as i32 / scale.items, number as i32 % scale.items);
            stock_row(&tables.stock, &mut random, warehouse + 1, item + 1, key, body);
        })
    })?;
    settle(database)?;
    progress.done();
    Ok(())
}

/// What the transactions that committed did, to compare the tables with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ledger {
    pub orders: u64,
    pub lines: u64,
    pub quantity: u64,
    pub amount: u64,
    pub remote_lines: u64,
}

impl Ledger {
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            orders: self.orders + other.orders,
            lines: self.lines + other.lines,
            quantity: self.quantity + other.quantity,
            amount: self.amount + other.amount,
            remote_lines: self.remote_lines + other.remote_lines,
        }
    }
}

/// The transactions of one worker.
pub struct NewOrders<'t> {
    tables: &'t Tables,
    scale: Scale,
    batched: bool,
    random: Random,
    items: NonUniform,
    /// The worker's own: all others where there are fewer warehouses than workers.
    warehouse: i32,
    /// Where it counts its orders from, and in what steps, so that no two workers make the same.
    first_order: i32,
    order_step: i32,
    orders: [i32; DISTRICTS as usize],
    order: Order,
    line_body: Vec<u8>,
    ledger: Ledger,
    /// What a client would look at: brand-generic lines.
    brands: u64,
}

/// What was drawn.
struct Order {
    district: i16,
    count: usize,
    lines: [Line; LINES_MAX],
    item_keys: [RowKey; LINES_MAX],
    stock_keys: [RowKey; LINES_MAX],
}

/// A line: what was drawn, and what was read.
#[derive(Clone, Copy)]
struct Line {
    item: i32,
    supply_warehouse: i32,
    quantity: i32,
    price: i64,
    is_original: bool,
    stock: Option<RowId>,
    info: [u8; DISTRICT_INFO_BYTES],
}

const NO_LINE: Line = Line {
    item: 0,
    supply_warehouse: 0,
    quantity: 0,
    price: 0,
    is_original: false,
    stock: None,
    info: [b' '; DISTRICT_INFO_BYTES],
};

impl<'t> NewOrders<'t> {
    /// Those of worker `worker` of `workers`.
    pub fn new(tables: &'t Tables, scale: Scale, worker: usize, workers: usize, batched: bool, seed: u64) -> Self {
        let constants = Constants::draw(&mut Random::new(seed));
        Self {
            tables,
            scale,
            batched,
            random: Random::new(seed ^ (worker as u64 + 1) << 40),
            items: NonUniform::items(&constants, scale.items),
            warehouse: worker as i32 % scale.warehouses + 1,
            first_order: worker as i32 + 1,
            order_step: workers as i32,
            orders: [0; DISTRICTS as usize],
            order: Order {
                district: 1,
                count: 0,
                lines: [NO_LINE; LINES_MAX],
                item_keys: [RowKey::new(); LINES_MAX],
                stock_keys: [RowKey::new(); LINES_MAX],
            },
            line_body: tables.order_line.template(),
            ledger: Ledger::default(),
            brands: 0,
        }
    }

    /// What has committed so far.
    pub const fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Any warehouse but the worker's own.
    fn other_warehouse(&mut self) -> i32 {
        let other = uniform(&mut self.random, 1, self.scale.warehouses - 1);
        if other < self.warehouse { other } else { other + 1 }
    }
}

impl Work for NewOrders<'_> {
    fn draw(&mut self) -> usize {
        self.order.district = uniform(&mut self.random, 1, i32::from(DISTRICTS)) as i16;
        self.order.count = uniform(&mut self.random, 5, LINES_MAX as i32) as usize;
        for number in 0..self.order.count {
            let item = self.items.next(&mut self.random);
            let is_remote = self.scale.warehouses > 1 && uniform(&mut self.random, 1, 100) == 1;
            let supply_warehouse = if is_remote { self.other_warehouse() } else { self.warehouse };
            let quantity = uniform(&mut self.random, 1, 10);
            self.order.lines[number] = Line { item, supply_warehouse, quantity, ..NO_LINE };
            self.order.item_keys[number] = item_key(item);
            self.order.stock_keys[number] = stock_key(supply_warehouse, item);
        }
        0
    }

    fn run(&mut self, runner: &mut Runner) -> Result<End, Error> {
        let Self { tables: Tables { item, stock, order_line }, order, line_body, .. } = self;
        let Order { district, count, lines, item_keys, stock_keys } = order;
        let (district, lines) = (*district, &mut lines[..*count]);
        let order_number = self.first_order + self.order_step * self.orders[district as usize - 1];
        let mut transaction = runner.begin(Isolation::Serializable);
        if self.batched {
            transaction.get_many(&item.table, &item_keys[..*count], |line, found| {
                if let Some(found) = found {
                    lines[line].see_item(item, found.body);
                }
            });
            transaction.get_many(&stock.table, &stock_keys[..*count], |line, found| {
                if let Some(found) = found {
                    lines[line].see_stock(stock, found.body, district);
                    lines[line].stock = Some(found.id);
                }
            });
        }
        let mut done = Ledger { orders: 1, lines: *count as u64, ..Ledger::default() };
        let mut brands = 0;
        for (number, line) in lines.iter_mut().enumerate() {
            if !self.batched {
                let found = transaction.get(&item.table, item_keys[number].as_ref());
                line.see_item(item, found.ok_or_else(|| absent("an item"))?.body);
                let found = transaction.get(&stock.table, stock_keys[number].as_ref());
                let found = found.ok_or_else(|| absent("a stock"))?;
                line.see_stock(stock, found.body, district);
                line.stock = Some(found.id);
            }
            let id = line.stock.ok_or_else(|| absent("a stock"))?;
            let is_remote = line.supply_warehouse != self.warehouse;
            transaction.modify(&stock.table, id, |body| stock.order(body, line.quantity, is_remote))?;
            let amount = line.price * i64::from(line.quantity);
            order_line.write(line_body, line.item, line.supply_warehouse, line.quantity, amount, &line.info);
            let key = order_line_key(self.warehouse, district, order_number, number as i16 + 1);
            transaction.insert(&order_line.table, key.as_ref(), line_body)?;
            done.quantity += line.quantity as u64;
            done.amount += amount as u64;
            done.remote_lines += u64::from(is_remote);
            brands += u64::from(line.is_original);
        }
        let receipt = transaction.commit_early()?;
        self.orders[district as usize - 1] += 1;
        self.ledger = self.ledger.plus(done);
        self.brands += brands;
        Ok(End::Committed(receipt))
    }
}

impl Line {
    #[inline]
    fn see_item(&mut self, item: &Item, body: &[u8]) {
        self.price = item.price.read(body);
        self.is_original = is_original(item.data.read(item.table.row_layout(), body));
    }

    #[inline]
    fn see_stock(&mut self, stock: &Stock, body: &[u8], district: i16) {
        self.info.copy_from_slice(stock.district(body, district));
        self.is_original = self.is_original && is_original(stock.data.read(stock.table.row_layout(), body));
    }
}

#[cold]
fn absent(what: &str) -> Error {
    Error::Procedure { message: format!("{what} that was loaded is not there") }
}
