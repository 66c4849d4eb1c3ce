//! Where the groups of one source are among those of all.

/// Pairs of groups: one of the source, and the same one of the target. Each target at most once.
pub(crate) enum Pairs {
    Lists {
        sources: Vec<u32>,
        targets: Vec<u32>,
    },
    /// Groups that follow each other in both.
    Stretches(Vec<Stretch>),
}

#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) source: usize,
    pub(crate) target: usize,
    pub(crate) groups: usize,
}

impl Pairs {
    /// Calls `take` with each pair.
    #[inline]
    pub(crate) fn for_each(&self, mut take: impl FnMut(usize, usize)) {
        match self {
            Self::Lists { sources, targets } => {
                sources.iter().zip(targets).for_each(|(source, target)| take(*source as usize, *target as usize));
            }
            Self::Stretches(stretches) => {
                for Stretch { source, target, groups } in stretches {
                    (0..*groups).for_each(|group| take(source + group, target + group));
                }
            }
        }
    }
}

/// Brings ascending keys together: all keys, ascending, and where those of each source are. Source `i` has `keys[i]`,
/// the first of which is its group `firsts[i]`.
///
/// Threads take turns by thousands of rows: most keys are copied in long stretches, up to the next key of another
/// source.
pub(crate) fn merge_ascending(sources: &[&[u64]], firsts: &[usize]) -> (Vec<u64>, Vec<Pairs>) {
    let mut merged = Vec::with_capacity(sources.iter().map(|keys| keys.len()).max().unwrap_or(0));
    let mut stretches: Vec<Vec<Stretch>> = vec![Vec::new(); sources.len()];
    let mut rests = sources.to_vec();
    // The least key that is left, and the source that has it.
    while let Some((least, first)) = rests.iter().enumerate().filter_map(|(i, rest)| Some((*rest.first()?, i))).min() {
        let others = rests.iter().enumerate().filter(|(source, _)| *source != first);
        let next = others.filter_map(|(_, rest)| rest.first().copied()).min();
        let groups = next.map_or(rests[first].len(), |next| count_below(rests[first], next)).max(1);
        let target = merged.len();
        merged.extend_from_slice(&rests[first][..groups]);
        for (source, rest) in rests.iter_mut().enumerate() {
            let groups = match rest.first() {
                _ if source == first => groups,
                Some(key) if *key == least => 1,
                _ => continue,
            };
            let start = firsts[source] + sources[source].len() - rest.len();
            extend(&mut stretches[source], Stretch { source: start, target, groups });
            *rest = &rest[groups..];
        }
    }
    (merged, stretches.into_iter().map(Pairs::Stretches).collect())
}

/// How many of ascending keys are below `limit`: looked for in steps that double, since it may be few.
fn count_below(keys: &[u64], limit: u64) -> usize {
    let mut step = 1;
    while keys.get(step).is_some_and(|key| *key < limit) {
        step *= 2;
    }
    let start = step / 2;
    start + keys[start..keys.len().min(step)].partition_point(|key| *key < limit)
}

fn extend(stretches: &mut Vec<Stretch>, more: Stretch) {
    match stretches.last_mut() {
        Some(last) if (last.source + last.groups, last.target + last.groups) == (more.source, more.target) => {
            last.groups += more.groups;
        }
        _ => stretches.push(more),
    }
}
