//! Recognises joins: which table is read first, and how rows of the others are looked up for its rows.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, JoinConstraint, JoinOperator, TableWithJoins};

use super::super::plan::{Definition, Kind, Lookup, Source, Tree};
use super::compiler::{Compiler, With, named_table};
use super::condition::{Asked, Reach, fit, operands, together, trees};
use saki_catalog::Catalog;
use saki_context::values::condition::{Alternatives, Condition, Test, Values};
use saki_context::values::expr::{Expr, scale_of};

/// Tables of a statement at most.
pub const RELATIONS_MAX: usize = 6;

/// Where rows are found: of the compiler's table, and of others for each.
pub struct Found {
    pub source: Source,
    /// Another way to them, in the order asked for, if they are not found in it.
    pub spare: Option<Source>,
    /// The table has its columns from here on.
    pub first: usize,
    pub lookups: Vec<Lookup>,
    /// What whole rows meet besides.
    pub conditions: Alternatives,
    /// Whether they are found in the order asked for.
    pub is_ordered: bool,
}

/// What all rows meet, taken apart.
struct Conditions<'c> {
    /// Conditions of single columns: rows are found by them.
    known: Vec<Alternatives>,
    /// What the planner is to work out of whole rows.
    others: Vec<&'c ast::Expr>,
}

/// What FROM says of its tables.
#[derive(Default)]
pub struct Joins<'a> {
    /// What all rows meet.
    pub conditions: Vec<&'a ast::Expr>,
    /// What rows of a table, by number, meet, of which there may be none.
    outer: BTreeMap<usize, &'a ast::Expr>,
    /// By number, the tables of subqueries, and what their rows meet.
    pub inner: BTreeMap<usize, (Kind, Vec<Clause>)>,
}

/// A condition, and the tables of its columns.
#[derive(Clone)]
pub struct Clause {
    condition: Condition,
    touches: BTreeSet<usize>,
    /// The table that it is to be met by a row of, if there may be none.
    outer: Option<usize>,
}

impl Clause {
    /// Whether whole rows meet it only with a row of each table that it touches.
    fn refuses_nulls(&self) -> bool {
        self.outer.is_none() && !matches!(self.condition.test, Test::IsNull)
    }
}

impl<'t> Compiler<'t> {
    /// Of the tables of FROM, and what joins them.
    pub fn of_from<'a>(catalog: &'t Catalog, from: &'a [TableWithJoins], with: With<'t>) -> Option<(Self, Joins<'a>)> {
        let [first, others @ ..] = from else { return None };
        let (name, alias) = named_table(&first.relation)?;
        let (mut compiler, mut joins) = (Self::of_table(catalog, name, alias, with)?, Joins::default());
        compiler.join(catalog, first, &mut joins)?;
        for other in others {
            let (name, alias) = named_table(&other.relation)?;
            compiler.add(catalog, name, alias)?;
            compiler.join(catalog, other, &mut joins)?;
        }
        (compiler.relations.len() <= RELATIONS_MAX).then_some((compiler, joins))
    }

    fn join<'a>(&mut self, catalog: &'t Catalog, with: &'a TableWithJoins, joins: &mut Joins<'a>) -> Option<()> {
        for join in &with.joins {
            let (name, alias) = named_table(&join.relation)?;
            self.add(catalog, name, alias)?;
            match &join.join_operator {
                _ if join.global => return None,
                JoinOperator::Join(JoinConstraint::On(on)) | JoinOperator::Inner(JoinConstraint::On(on)) => {
                    joins.conditions.push(on);
                }
                JoinOperator::CrossJoin(JoinConstraint::None) => {}
                JoinOperator::Left(JoinConstraint::On(on)) | JoinOperator::LeftOuter(JoinConstraint::On(on)) => {
                    joins.outer.insert(self.relations.len() - 1, on);
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Where the rows are found that meet a condition, and what joins say.
    pub fn found(&mut self, joins: &Joins<'_>, selection: Option<&ast::Expr>, asked: Asked<'_>) -> Option<Found> {
        let Conditions { known, others } = self.apart(selection.into_iter().chain(joins.conditions.iter().copied()));
        let asked = asked.beside(&others);
        let found = match self.relations.len() {
            1 => self.found_in_one(&together(known)?, asked)?,
            _ => self.found_in_several(joins, known, asked)?,
        };
        self.with_conditions(found, &others)
    }

    fn found_in_several(&mut self, joins: &Joins<'_>, known: Vec<Alternatives>, asked: Asked<'_>) -> Option<Found> {
        let known: Vec<Condition> = known.into_iter().flatten().flatten().collect();
        let mut clauses: Vec<Clause> = known.into_iter().map(|condition| self.clause(condition, None)).collect();
        for (relation, on) in &joins.outer {
            clauses.append(&mut self.clauses(on, Some(*relation))?);
        }
        let mut outer: BTreeSet<usize> = joins.outer.keys().copied().collect();
        // What compares a column of such a table is not met by NULLs: there has to be a row.
        while let Some(relation) = outer
            .iter()
            .copied()
            .find(|relation| clauses.iter().any(|clause| clause.refuses_nulls() && clause.touches.contains(relation)))
        {
            outer.remove(&relation);
            clauses.iter_mut().filter(|clause| clause.outer == Some(relation)).for_each(|clause| clause.outer = None);
        }
        // What NULLs do meet is not asked of rows of its own.
        let asks_for_none = |clause: &Clause| clause.outer.is_none() && !clause.touches.is_disjoint(&outer);
        if clauses.iter().any(asks_for_none) {
            return None;
        }
        let mut kinds: BTreeMap<usize, Kind> = outer.into_iter().map(|relation| (relation, Kind::Outer)).collect();
        for (relation, (kind, own)) in &joins.inner {
            kinds.insert(*relation, *kind);
            clauses.extend_from_slice(own);
        }
        let found = self.in_turn(&clauses, &kinds, asked)?;
        // What gives a value has one row at most, which its key says.
        let is_one = |column: &usize| {
            let first = self.relations[self.relation_of(*column)].first;
            found.lookups.iter().any(|lookup| lookup.first == first && lookup.source.is_single())
        };
        self.scalars.iter().all(is_one).then_some(found)
    }

    /// Where rows of the only table are found that have a value of a column: in its order, or against that for the
    /// greatest, if they are found in an order.
    pub fn found_extreme(&mut self, selection: Option<&ast::Expr>, column: usize, is_greatest: bool) -> Option<Found> {
        if self.relations.len() > 1 {
            return None;
        }
        let is_there = Condition { column, data_type: self.type_of(column), test: Test::IsNotNull };
        let Conditions { mut known, others } = self.apart(selection.into_iter());
        known.push(vec![vec![is_there]]);
        let order = [(column, is_greatest)];
        let asked = Asked { order: &order, reach: Reach::First }.beside(&others);
        let found = self.found_in_one(&together(known)?, asked)?;
        self.with_conditions(found, &others)
    }

    /// Conditions that all hold, taken apart.
    fn apart<'c>(&mut self, conditions: impl Iterator<Item = &'c ast::Expr>) -> Conditions<'c> {
        let mut apart = Conditions { known: Vec::new(), others: Vec::new() };
        let is_one_table = self.relations.len() == 1;
        for operand in conditions.flat_map(|condition| operands(condition, &BinaryOperator::And)) {
            match self.alternatives(operand) {
                // Rows of several tables are found by what all of them meet.
                Some(known) if is_one_table || known.len() == 1 => apart.known.push(known),
                _ => {
                    apart.others.push(operand);
                    apart.known.extend(self.beginning(operand).map(|condition| vec![vec![condition]]));
                }
            }
        }
        apart
    }

    /// The same rows, if they meet conditions that the planner works out.
    fn with_conditions(&mut self, found: Found, others: &[&ast::Expr]) -> Option<Found> {
        let all = others.iter().map(|condition| self.of_whole_rows(condition)).collect::<Option<Vec<_>>>()?;
        let conditions = if all.is_empty() { Vec::new() } else { vec![all.concat()] };
        Some(Found { conditions, ..found })
    }

    fn found_in_one(&self, alternatives: &Alternatives, asked: Asked<'_>) -> Option<Found> {
        let (_, source, is_ordered) = self.choose(&self.relations[0], alternatives, asked)?;
        let spare = if is_ordered { None } else { self.in_order(alternatives, asked) };
        Some(Found { source, spare, first: 0, lookups: Vec::new(), conditions: Vec::new(), is_ordered })
    }

    /// A condition as clauses that all hold.
    pub fn clauses(&mut self, condition: &ast::Expr, outer: Option<usize>) -> Option<Vec<Clause>> {
        let alternatives = self.alternatives(condition)?;
        let [conditions] = &alternatives[..] else { return None };
        Some(conditions.iter().map(|condition| self.clause(condition.clone(), outer)).collect())
    }

    pub fn clause(&self, condition: Condition, outer: Option<usize>) -> Clause {
        let mut touches = BTreeSet::from([self.relation_of(condition.column)]);
        condition.columns(&mut |column| {
            touches.insert(self.relation_of(column));
        });
        Clause { condition, touches, outer }
    }

    /// One table after the other: first the one whose own conditions say most, then always the one of which what is
    /// known says most.
    fn in_turn(&mut self, clauses: &[Clause], kinds: &BTreeMap<usize, Kind>, asked: Asked<'_>) -> Option<Found> {
        let all = 0..self.relations.len();
        let first = all.clone().filter(|relation| !kinds.contains_key(relation)).filter_map(|relation| {
            let of_itself = |clause: &&Clause| clause.outer.is_none() && clause.touches.iter().eq([&relation]);
            let conditions: Vec<_> = clauses.iter().filter(of_itself).map(|clause| clause.condition.clone()).collect();
            Some((relation, self.choose(&self.relations[relation], &vec![conditions], asked)?))
        });
        let (relation, (_, source, is_ordered)) =
            first.reduce(|best, other| if other.1.0 > best.1.0 { other } else { best })?;
        let mut bound = BTreeSet::from([relation]);
        let mut lookups = Vec::new();
        while bound.len() < self.relations.len() {
            let next = all.clone().filter(|relation| !bound.contains(relation)).filter_map(|relation| {
                let kind = kinds.get(&relation).copied().unwrap_or(Kind::Inner);
                self.lookup(relation, kind, clauses, &bound).map(|(score, lookup)| (score, relation, lookup))
            });
            let (_, relation, lookup) = next.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
            bound.insert(relation);
            lookups.push(lookup);
        }
        let relation = &self.relations[relation];
        self.table = relation.table;
        let first = relation.first;
        Some(Found { source, spare: None, first, lookups, conditions: Vec::new(), is_ordered })
    }

    /// How rows of a table are looked up for rows of those that are `bound`, and how good that is; `None` if nothing
    /// says where.
    fn lookup(
        &self,
        number: usize,
        kind: Kind,
        clauses: &[Clause],
        bound: &BTreeSet<usize>,
    ) -> Option<((bool, usize), Lookup)> {
        let (relation, is_outer) = (&self.relations[number], kind != Kind::Inner);
        let of = is_outer.then_some(number);
        let is_known = |clause: &Clause| clause.touches.iter().all(|other| *other == number || bound.contains(other));
        let is_its = |clause: &&Clause| clause.outer == of && (is_outer || clause.touches.contains(&number));
        // What joins it has to be known as a whole; of what holds anyway the rest is tested later.
        let its: Vec<&Clause> = clauses.iter().filter(is_its).collect();
        if is_outer && !its.iter().all(|clause| is_known(clause)) {
            return None;
        }
        let its: Vec<&Clause> = its.into_iter().filter(|clause| is_known(clause)).collect();
        let forms: Vec<Condition> = its.iter().filter_map(|clause| self.form(number, &clause.condition)).collect();
        let fits = trees(relation.table).filter_map(|(tree, layout)| {
            let fit = Some(fit(relation, &layout, &forms)).filter(|fit| fit.range.is_narrow())?;
            let is_key = tree == Tree::Primary && fit.range.prefix.len() == layout.key_columns.len();
            Some(((is_key, fit.range.width()), if is_key { Tree::Keys } else { tree }, fit))
        });
        let (score, tree, fit) = fits.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        let is_whole = fit.open.is_empty() && forms.len() == its.len();
        let rest = || vec![its.iter().map(|clause| clause.condition.clone()).collect()];
        let source = Source { tree, ranges: vec![fit.range], is_reverse: false, filter: (!is_whole).then(rest) };
        let table = relation.table;
        let lookup = Lookup { table: Definition::of(table), first: relation.first, source, kind };
        Some((score, lookup))
    }

    /// A condition as one of a table's own column with what is made of others'.
    fn form(&self, number: usize, condition: &Condition) -> Option<Condition> {
        let is_own = |column: usize| self.relation_of(column) == number;
        let mut has_own = false;
        condition.columns(&mut |column| has_own |= is_own(column));
        match (is_own(condition.column), has_own) {
            (true, false) => Some(condition.clone()),
            (false, true) => {
                let (operator, other) = match &condition.test {
                    Test::OneOf(Values::List(list)) => match &list[..] {
                        [Expr::Column(other, _)] => (None, *other),
                        _ => return None,
                    },
                    Test::Compare(operator, Expr::Column(other, _)) => (Some(operator.mirrored()), *other),
                    _ => return None,
                };
                let value = Expr::Column(condition.column, scale_of(condition.data_type));
                let test = match operator {
                    None => Test::OneOf(Values::List([value].into())),
                    Some(operator) => Test::Compare(operator, value),
                };
                Some(Condition { column: other, data_type: self.type_of(other), test })
            }
            _ => None,
        }
    }
}
