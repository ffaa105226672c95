//! Walking through a store: page after page, in the order of the slots.

use onceward::{
    Engine, Found, Record, SlotId,
    store::{Filter, Reply},
};

use crate::{exit::Failure, trouble};

/// How many records to ask for at once. Each may bring its outcome with it.
const PAGE: usize = 256;

/// Hands `each` the records that `filter` lets pass, after `after`, `limit` of them at the most.
///
/// Returns the slot to go on after, if there are more.
pub(crate) async fn each(
    engine: &Engine,
    filter: &Filter,
    after: Option<SlotId>,
    limit: usize,
    each: impl FnMut(Found) -> Result<(), Failure>,
) -> Result<Option<SlotId>, Failure> {
    wanted(engine, filter, after, limit, |_| true, each).await
}

/// The same for those records that `wants` lets pass as well: the others do not count.
pub(crate) async fn wanted(
    engine: &Engine,
    filter: &Filter,
    mut after: Option<SlotId>,
    limit: usize,
    wants: impl Fn(&Record) -> bool,
    mut each: impl FnMut(Found) -> Result<(), Failure>,
) -> Result<Option<SlotId>, Failure> {
    let mut left = limit;
    let mut last = None;
    loop {
        let page = engine.list(filter, after, left.saturating_add(1).min(PAGE));
        let Reply { value: page, now } = page.await.map_err(|error| trouble::of(&error))?;
        for (slot, record) in page.records.into_iter().filter(|it| wants(&it.1)) {
            // One more than was asked for: now it is known that there is more.
            if left == 0 {
                return Ok(last);
            }
            each(Found { slot, record, now })?;
            last = Some(slot);
            left -= 1;
        }
        after = page.next;
        if after.is_none() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use onceward::{Store as _, Timestamp, testing::World, testing::records};

    use super::*;

    async fn walk(world: &World, after: Option<SlotId>, limit: usize) -> (usize, Option<SlotId>) {
        let mut seen = Vec::new();
        let all = Filter::default();
        let walk = each(&world.engine, &all, after, limit, |found| {
            seen.push(found.slot);
            Ok(())
        });
        let next = walk.await.unwrap();
        assert!(seen.is_sorted(), "slots come in their order");
        (seen.len(), next)
    }

    async fn world(records: usize) -> World {
        let world = World::new();
        world.engine.secret().await.unwrap();
        for name in 0..records {
            let slot = records::slot(&name.to_string());
            let record = records::unknown(None);
            let done = world.store.insert(slot, &record, Timestamp::NEVER);
            done.await.unwrap();
        }
        world
    }

    #[tokio::test]
    async fn more_is_said_exactly_when_there_is_more() {
        let world = world(10).await;
        assert_eq!(walk(&world, None, 10).await, (10, None));
        assert_eq!(walk(&world, None, 11).await, (10, None));
        let (seen, next) = walk(&world, None, 9).await;
        assert_eq!(seen, 9);
        assert_eq!(walk(&world, next, 9).await, (1, None));
    }

    #[tokio::test]
    async fn many_pages_are_one_walk() {
        let world = world(3 * PAGE).await;
        assert_eq!(walk(&world, None, usize::MAX).await, (3 * PAGE, None));
        let (seen, next) = walk(&world, None, 2 * PAGE).await;
        assert_eq!(seen, 2 * PAGE);
        assert_eq!(walk(&world, next, usize::MAX).await, (PAGE, None));
    }

    #[tokio::test]
    async fn what_nobody_wants_does_not_count() {
        let world = world(10).await;
        let reserved = records::reserved(records::LONG);
        for name in 0..PAGE {
            let slot = records::slot(&format!("reserved {name}"));
            let done = world.store.insert(slot, &reserved, Timestamp::NEVER);
            done.await.unwrap();
        }
        let wanted = async |limit| {
            let (all, mut seen) = (Filter::default(), 0);
            let wants = |record: &Record| record.reservation().is_none();
            let walk = wanted(&world.engine, &all, None, limit, wants, |_| {
                seen += 1;
                Ok(())
            });
            let next = walk.await.unwrap();
            (seen, next.is_some())
        };
        assert_eq!(wanted(10).await, (10, false));
        assert_eq!(wanted(9).await, (9, true));
    }

    #[tokio::test]
    async fn the_reserved_slot_is_nobodys_record() {
        assert_eq!(walk(&world(0).await, None, 1).await, (0, None));
    }
}
