//! What a session knows of sequences: its last values, and whether its query feeds a publication.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::TableId;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::database::{Database, SessionDraft};
use saki_catalog::{Demand, Demanded, ObjectKind, Privilege, Result, RoleId, Sequence, SequencePosition, SqlError};
use saki_parameters::{Parameters, read_only};
use saki_postgres::statement::parse_relation;
use saki_store::sequence::{Block, Publisher, find};
use saki_store::{Stop, Writer};

/// `nextval`, `currval`, `lastval` and `setval` of one session.
pub struct SessionSequences {
    db: Arc<Database>,
    draft: Arc<SessionDraft>,
    parameters: Arc<Parameters>,
    /// Queries of the session that feed a publication.
    publishing: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What `nextval` gave last.
    values: HashMap<TableId, i64>,
    last: Option<TableId>,
    /// Values of this session only, while it publishes.
    blocks: HashMap<String, Option<Block>>,
}

/// While it lives, the session's query feeds a publication.
pub struct Publishing<'s>(&'s SessionSequences);

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        if self.0.publishing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let blocks = std::mem::take(&mut self.0.known.lock().blocks);
            blocks.into_values().flatten().for_each(|block| self.0.db.sequences.give_back(block));
        }
    }
}

impl SessionSequences {
    /// `draft` and `parameters` are the session's.
    pub fn new(db: Arc<Database>, draft: Arc<SessionDraft>, parameters: &Arc<Parameters>) -> Arc<Self> {
        let parameters = Arc::clone(parameters);
        Arc::new(Self { db, draft, parameters, publishing: AtomicUsize::new(0), known: Mutex::default() })
    }

    /// Says that a query of this session feeds a publication from now on.
    pub fn publishing(&self) -> Publishing<'_> {
        self.publishing.fetch_add(1, Ordering::AcqRel);
        Publishing(self)
    }

    /// Forgets what `currval` and `lastval` give: DISCARD SEQUENCES.
    pub fn forget(&self) {
        let mut known = self.known.lock();
        known.values.clear();
        known.last = None;
    }

    fn refuse_read_only(&self, command: &str) -> Result<()> {
        if self.parameters.is_read_only() { Err(read_only(command)) } else { Ok(()) }
    }

    /// Of the statement that the thread works for; it waits for its turn no longer than `lock_timeout`.
    fn stop(&self) -> Stop {
        Stop::current().patiently(self.parameters.state().effective.lock_patience())
    }

    /// The catalog's name of the sequence that a text names.
    ///
    /// # Errors
    /// 42501 if the session's role has none of these rights. Whoever may add rows may draw from an identity's.
    fn allowed(&self, text: &str, any: &[Privilege]) -> Result<String> {
        let name = parse_relation(text)?;
        let role = self.parameters.roles().current;
        if role == RoleId::OWNER {
            return Ok(name.name);
        }
        let generation = self.draft.newest(&self.db)?;
        let catalog = &generation.catalog;
        let Some(sequence) = catalog.sequence(&name.name) else { return Ok(name.name) };
        let is_identity = sequence.owner.is_some_and(|owner| {
            let table = catalog.table_of(owner.table);
            let detail = table.and_then(|table| table.details.iter().find(|detail| detail.id == owner.column));
            detail.is_some_and(|detail| detail.identity.is_some())
        });
        if !is_identity {
            let of = Demanded::Any(any.iter().copied().collect());
            let (object, kind) = (sequence.id.into(), ObjectKind::Sequence);
            catalog.demand(role, &Demand { object, kind, name: sequence.bare_name().to_owned(), of })?;
        }
        Ok(name.name)
    }

    /// The next value of the sequence that a text names.
    pub fn nextval(&self, text: &str) -> Result<i64> {
        self.refuse_read_only("nextval()")?;
        let name = self.allowed(text, &[Privilege::Usage, Privilege::Update])?;
        let (store, seen) = (&**self.db.store(), Seen(self));
        let (id, value) = if self.publishing.load(Ordering::Acquire) > 0 {
            let mut known = self.known.lock();
            let block = known.blocks.entry_ref(name.as_str()).or_default();
            store.sequences.next_unpublished(&seen, &name, block)?
        } else {
            wait(|| store.sequences.next(&seen, &name))?
        };
        self.note(id, value);
        Ok(value)
    }

    /// The same, if it takes no waiting for storage; `None`, and nothing has been drawn, if it would.
    ///
    /// # Errors
    /// As of [`Self::nextval`].
    pub fn nextval_ready(&self, text: &str) -> Result<Option<i64>> {
        self.refuse_read_only("nextval()")?;
        let name = self.allowed(text, &[Privilege::Usage, Privilege::Update])?;
        if self.publishing.load(Ordering::Acquire) > 0 {
            return Ok(None);
        }
        let drawn = self.db.store().sequences.next_ready(&Seen(self), &name)?;
        Ok(drawn.map(|(id, value)| {
            self.note(id, value);
            value
        }))
    }

    fn note(&self, id: TableId, value: i64) {
        let mut known = self.known.lock();
        known.values.insert(id, value);
        known.last = Some(id);
    }

    /// What [`Self::nextval`] gave last for a sequence.
    pub fn currval(&self, text: &str) -> Result<i64> {
        let name = self.allowed(text, &[Privilege::Usage, Privilege::Select])?;
        let sequence = find(&self.draft.newest(&self.db)?.catalog, &name)?;
        self.known.lock().values.get(&sequence.id).copied().ok_or_else(|| {
            SqlError::invalid(format!(
                "currval of sequence {:?} is not yet defined in this session",
                sequence.bare_name()
            ))
            .code("55000")
        })
    }

    /// What [`Self::nextval`] gave last.
    pub fn lastval(&self) -> Result<i64> {
        let known = self.known.lock();
        let last = known.last.and_then(|id| known.values.get(&id).copied());
        last.ok_or_else(|| SqlError::invalid("lastval is not yet defined in this session").code("55000"))
    }

    /// Moves a sequence; `is_called`: the next value is the one behind `value`.
    pub fn setval(&self, text: &str, value: i64, is_called: bool) -> Result<i64> {
        self.refuse_read_only("setval()")?;
        let name = self.allowed(text, &[Privilege::Update])?;
        if self.publishing.load(Ordering::Acquire) > 0 {
            return Err(SqlError::unsupported("setval in a query whose rows fill a table is not supported"));
        }
        wait(|| {
            let seen = find(&self.draft.newest(&self.db)?.catalog, &name)?;
            let set = |writer: &mut Writer<'_>| {
                let sequence = find(&writer.catalog, &name)?;
                let Sequence { min, max, .. } = *sequence;
                if !(min..=max).contains(&value) {
                    return Err(SqlError::data(format!(
                        "setval: value {value} is out of bounds for sequence {:?} ({min}..{max})",
                        sequence.bare_name()
                    ))
                    .code("22003"));
                }
                let position = SequencePosition { last_value: value, is_called };
                let version = sequence.version + 1;
                writer.catalog.put_sequence(Sequence { position, version, ..Sequence::clone(&sequence) });
                Ok(sequence.id)
            };
            // Numbers are not taken back, unless the sequence is.
            match Seen(self).is_published(&seen) {
                true => self.db.write_unless(&self.stop(), set),
                false => self.draft.write(self.db.store(), &self.stop(), set),
            }
        })
        .map(|id| {
            if is_called {
                self.known.lock().values.insert(id, value);
            }
            value
        })
    }
}

/// Sequences as a session sees them.
struct Seen<'s>(&'s SessionSequences);

impl Seen<'_> {
    /// Whether others see the sequence as it is.
    fn is_published(&self, sequence: &Sequence) -> bool {
        let published = self.0.db.generation();
        published.catalog.sequence_of(sequence.id).is_some_and(|other| other.version == sequence.version)
    }
}

impl Publisher for Seen<'_> {
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        find(&self.0.draft.newest(&self.0.db)?.catalog, name)
    }

    fn publish(&self, sequence: &Sequence) -> Result<()> {
        // The commit of the transaction stores the position of its own.
        if self.is_published(sequence) { self.0.db.publish_positions(&self.0.stop()) } else { Ok(()) }
    }
}

/// Waits for storage on a thread that may run other tasks: they go elsewhere meanwhile.
fn wait<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
