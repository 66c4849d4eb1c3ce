//! Looking at tables, and what that may show.

use super::{Answer, Client, Refused, Stop};
use crate::model::shape::Shape;
use crate::model::{Owner, Row, State, TableNumber, Window};
use crate::tables::Filter;

/// The constraints of all owners' tables.
const CONSTRAINTS: &str = "SELECT conname FROM pg_constraint WHERE contype <> 'p'";

/// A look at a table.
#[derive(Clone, Copy)]
pub struct Look<'l> {
    pub table: TableNumber,
    /// What its owner's tables are taken to look like.
    pub shape: &'l Shape,
    pub filter: &'l Filter,
}

/// Rows of each owner, with their keys.
type Found = Vec<Vec<(i64, Row)>>;

impl Client<'_> {
    /// Reads what a filter lets pass of a table. `own`: what its own rows are, inside of its transaction.
    pub async fn read(&self, look: Look<'_>, window: &mut Window, own: Option<&State>) -> Result<(), Refused> {
        let text = self.run.tables.select(look.table, look.shape, look.filter);
        self.read_by(&text, look, window, own).await
    }

    /// The same by a query that has to give the same rows.
    pub(super) async fn read_by(
        &self,
        text: &str,
        look: Look<'_>,
        window: &mut Window,
        own: Option<&State>,
    ) -> Result<(), Refused> {
        let tables = self.run.tables;
        let Look { table, shape, filter } = look;
        let answer = match self.sql(text).await {
            Ok(answer) => Ok(answer),
            // As its owner may have altered it.
            Err(error) if ["42P01", "42703"].contains(&error.sqlstate()) => Err(error.sqlstate().to_owned()),
            Err(error) => return Err(Refused::Error(error)),
        };
        let found = self.sort(text, table, answer.as_ref().ok())?;
        let explains = |owner: Owner, state: &State| {
            let is_concerned = tables.owner_of(table).is_none_or(|of| of == owner);
            match (&answer, tables.refusal(table, shape, filter, &state.shape)) {
                _ if !is_concerned => true,
                (Ok(answer), None) => {
                    let rows = tables.filtered(table, owner, &state.rows, filter);
                    answer.columns == tables.shown(table, &state.shape)
                        && rows.eq(found[owner].iter().map(|(key, row)| (*key, row)))
                }
                (Err(code), Some(expected)) => code.as_str() == expected,
                _ => false,
            }
        };
        if let Some(state) = own
            && !explains(self.owner, state)
        {
            let expected: Vec<_> = tables.filtered(table, self.owner, &state.rows, filter).collect();
            let (shape, found) = (&state.shape, &found[self.owner]);
            return Err(Refused::Stop(self.fail(&format!(
                "{text}: its own rows are wrong inside of its transaction\n  found {found:?}\n  \
                 expected {expected:?}\n  {shape:?}"
            ))));
        }
        let mut model = self.run.model.lock();
        if let Err(what) = model.seen(window, own.map(|_| self.owner), explains) {
            let described = (0..tables.owners).map(|owner| {
                let found: String = found[owner].iter().map(|(key, row)| format!("    key {key}: {row}\n")).collect();
                format!("owner {owner}, found:\n{found} possible:\n{}", model.describe(owner, window))
            });
            let described: Vec<String> = described.collect();
            drop(model);
            return Err(Refused::Stop(self.fail(&format!("{text}: {what}\n{}", described.join("\n")))));
        }
        let is_news = model.told(window);
        drop(model);
        if is_news {
            self.tell("  news");
        }
        self.run.station.told(is_news);
        if answer.is_ok() { Ok(()) } else { Err(Refused::Expected) }
    }

    /// The rows of an answer by their owners, in the order of their keys.
    fn sort(&self, text: &str, table: TableNumber, answer: Option<&Answer>) -> Result<Found, Refused> {
        let mut found = vec![Vec::new(); self.run.tables.owners];
        for cells in answer.into_iter().flat_map(|answer| &answer.rows) {
            let row = self.run.tables.row_of(table, cells);
            let (owner, key, row) = row.map_err(|error| Refused::Stop(self.fail(&format!("{text}: {error}"))))?;
            found[owner].push((key, row));
        }
        found.iter_mut().for_each(|rows| rows.sort());
        Ok(found)
    }

    /// What the owner of a table has told of it, or nobody.
    pub fn shape_of(&self, table: TableNumber) -> Shape {
        let owner = self.run.tables.owner_of(table);
        owner.map_or_else(Shape::default, |owner| self.run.model.lock().state(owner).shape.clone())
    }

    /// Reads a table by all names that it may have.
    ///
    /// # Errors
    /// Those of [`Self::read`] that are not expected.
    pub async fn read_by_all_names(
        &self,
        table: TableNumber,
        filter: &Filter,
        window: &mut Window,
    ) -> Result<(), Refused> {
        let known = self.shape_of(table);
        let other = Shape { is_renamed: !known.is_renamed, ..known.clone() };
        let is_own = self.run.tables.owner_of(table).is_some_and(|owner| table == self.run.tables.own(owner));
        let both = [known, other];
        for shape in if is_own { &both[..] } else { &both[..1] } {
            match self.read(Look { table, shape, filter }, window, None).await {
                Ok(()) | Err(Refused::Expected) => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    /// Reads which constraints there are, of all or of one owner.
    pub async fn read_constraints(&self, window: &mut Window, only: Option<Owner>) -> Result<(), Refused> {
        let answer = self.sql(CONSTRAINTS).await.map_err(Refused::Error)?;
        let mut found: Vec<&str> = answer.rows.iter().flatten().map(String::as_str).collect();
        found.sort_unstable();
        let explains = |owner: Owner, state: &State| {
            let mut expected: Vec<String> = state.shape.constraints().iter().map(|one| one.name(owner)).collect();
            expected.sort_unstable();
            let of_owner = found.iter().filter(|name| is_of(name, owner));
            only.is_some_and(|only| only != owner) || of_owner.copied().eq(expected.iter().map(String::as_str))
        };
        let mut model = self.run.model.lock();
        let seen = model.seen(window, None, explains);
        drop(model);
        seen.map_err(|what| Refused::Stop(self.fail(&format!("constraints are {found:?}: {what}"))))
    }

    /// What became of its last transaction: that was told neither way.
    pub(super) async fn find_out(&self) -> Result<(), Stop> {
        self.session.fail().await;
        // Whatever transaction is open.
        let _ = self.sql("ROLLBACK").await;
        let tables = self.run.tables;
        let mut window = self.run.model.lock().look();
        let looks = async {
            for table in tables.all().filter(|table| tables.owner_of(*table).is_none_or(|of| of == self.owner)) {
                self.read_by_all_names(table, &Filter::Owner(self.owner), &mut window).await?;
            }
            self.read_constraints(&mut window, Some(self.owner)).await
        };
        match looks.await {
            Ok(()) | Err(Refused::Expected) => {}
            Err(Refused::Stop(stop)) => return Err(stop),
            Err(Refused::Error(error)) => {
                self.heard(&error)?;
                return Err(Stop);
            }
        }
        self.run.model.lock().settle(&window, [self.owner]);
        Ok(())
    }
}

/// Whether a constraint is of an owner's own table.
fn is_of(name: &str, owner: Owner) -> bool {
    let is_known = ["below_", "unique_", "link_"].iter().any(|prefix| name.starts_with(prefix));
    is_known && name.rsplit('_').next().is_some_and(|last| last == owner.to_string())
}
