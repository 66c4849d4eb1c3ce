//! What is made of tables that everybody uses: views, temporary tables; and numbers of a sequence.

use saki_base::Random;

use super::perform::{PAUSE_MAX, numbers};
use super::reading::Look;
use super::shared::is_taken;
use super::{Client, Refused, Stop, pause};
use crate::model::shape::Shape;
use crate::model::{Owner, Window};
use crate::tables::{Filter, HEAP, WIDE};

impl Client<'_> {
    /// Makes a view of its own of a table, and reads the table by it; or drops it.
    pub(super) async fn view(&self, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let tables = self.run.tables;
        let (table, shape) = ([WIDE, HEAP][random.below(2) as usize], &Shape::default());
        let name = format!("seen_{}_{}", self.owner, tables.name(table, shape));
        if random.chance(0.2) {
            return self.utility(&format!("DROP VIEW IF EXISTS {name}")).await;
        }
        let filter = self.any_filter(random);
        // The condition is the view's, or that of who reads it.
        let (inside, outside) = match random.chance(0.5) {
            true => (&filter, &Filter::All),
            false => (&Filter::All, &filter),
        };
        let query = tables.select(table, shape, inside);
        if let Err(error) = self.sql(&format!("CREATE OR REPLACE VIEW {name} AS {query}")).await {
            return self.heard(&error);
        }
        self.run.station.told(true);
        let text = format!("SELECT * FROM {name}{}", tables.condition(table, shape, outside));
        let mut window = self.run.model.lock().look();
        let read = self.read_by(&text, Look { table, shape, filter: &filter }, &mut window, None).await;
        self.hear(read)
    }

    /// Keeps what it sees of a table in a temporary one, and reads that while others go on.
    pub(super) async fn temporary(&self, number: usize, random: &mut Random) -> Result<(), Stop> {
        self.choose_path(random).await?;
        let (table, shape) = ([WIDE, HEAP][random.below(2) as usize], &Shape::default());
        let (name, filter) = (format!("kept_{number}"), self.any_filter(random));
        let look = Look { table, shape, filter: &filter };
        let mut window = self.run.model.lock().look();
        let query = self.run.tables.select(table, shape, &filter);
        if let Err(error) = self.sql(&format!("CREATE TEMP TABLE {name} AS {query}")).await {
            return self.heard(&error);
        }
        for _ in 0..2 {
            let read = self.read_by(&format!("SELECT * FROM {name}"), look, &mut window, None).await;
            self.hear(read)?;
            pause(random.below(PAUSE_MAX) / 20).await;
        }
        self.utility(&format!("DROP TABLE {name}")).await
    }

    /// Makes a table of what it sees of everybody's rows, in the place of the one that it made before.
    pub(super) async fn picture(&self) -> Result<(), Stop> {
        let name = picture(self.owner);
        if let Err(error) = self.sql(&format!("DROP TABLE IF EXISTS {name}")).await {
            return self.heard(&error);
        }
        let query = self.run.tables.select(WIDE, &Shape::default(), &Filter::All);
        let window = self.run.model.lock().look();
        if let Err(error) = self.sql(&format!("CREATE TABLE {name} AS {query}")).await {
            return self.heard(&error);
        }
        self.run.station.told(true);
        let read = self.read_picture(self.owner, window).await;
        self.hear(read)
    }

    /// Looks whether an owner's picture, if there is one, shows what a reader may have been shown that began with a
    /// window.
    pub async fn read_picture(&self, owner: Owner, mut window: Window) -> Result<(), Refused> {
        let name = picture(owner);
        match self.sql(&format!("SELECT count(*) FROM {name}")).await {
            Ok(_) => {}
            Err(error) if error.sqlstate() == "42P01" => return Ok(()),
            Err(error) => return Err(Refused::Error(error)),
        }
        let look = Look { table: WIDE, shape: &Shape::default(), filter: &Filter::All };
        self.read_by(&format!("SELECT * FROM {name}"), look, &mut window, None).await
    }

    /// Takes a number that nobody else has, also where its transaction is rolled back.
    pub(super) async fn take_number(&self, random: &mut Random) -> Result<(), Stop> {
        match self.sql("CREATE SEQUENCE IF NOT EXISTS numbers").await {
            Ok(_) => self.run.station.told(true),
            Err(error) if is_taken(&error) => {}
            Err(error) => return self.heard(&error),
        }
        let is_block = random.chance(0.4);
        if is_block {
            self.utility("BEGIN").await?;
        }
        let told = self.run.numbers.lock().look();
        match self.sql("SELECT nextval('numbers')").await {
            Ok(answer) => {
                for number in numbers(&answer.rows).concat() {
                    let given = self.run.numbers.lock().given(told, number);
                    given.map_err(|what| self.fail(&what))?;
                }
                self.run.station.told(true);
            }
            Err(error) => self.heard(&error)?,
        }
        if is_block { self.utility(["ROLLBACK", "COMMIT"][random.below(2) as usize]).await } else { Ok(()) }
    }

    /// What came of a read that is a statement by itself.
    fn hear(&self, read: Result<(), Refused>) -> Result<(), Stop> {
        match read {
            Ok(()) | Err(Refused::Expected) => Ok(()),
            Err(Refused::Stop(stop)) => Err(stop),
            Err(Refused::Error(error)) => self.heard(&error),
        }
    }
}

/// A table that one owner makes of everybody's rows.
fn picture(owner: Owner) -> String {
    format!("picture_{owner}")
}
