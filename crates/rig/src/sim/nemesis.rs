//! The nemesis: what goes wrong with links, processes, clocks and the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::coverage::Mark;
use super::network::Weather;
use super::plan::Route;
use super::world::World;

/// Makes trouble, one kind after the other and some at once, until trouble is over.
pub(super) async fn trouble(world: Arc<World>) {
    // From one every minute or so to one every ten seconds.
    let longest = 120_000 - (100_000.0 * world.plan.trouble) as u64;
    while !world.is_calm() {
        world.rest(world.span(1_000, longest)).await;
        if world.is_calm() {
            return;
        }
        let node = world.pick(world.plan.nodes as u64) as usize;
        let strike = strike(world.clone(), node);
        tokio::spawn(strike);
    }
}

/// Ends all trouble: links are whole, and every node is up.
pub(super) fn heal(world: &Arc<World>) {
    world.calm_down();
    world.store_is_down.store(false, Ordering::Relaxed);
    for link in &world.links {
        link.set(|weather| *weather = Weather::default());
    }
    for node in 0..world.plan.nodes {
        world.start(node);
        if let Some(process) = world.process(node) {
            process.go_on();
        }
    }
}

async fn strike(world: Arc<World>, node: usize) {
    match world.pick(if world.plan.steps { 10 } else { 8 }) {
        0 => partition(&world, node).await,
        1 => swizzle(&world).await,
        2 => {
            world.strike(Mark::Flaky, node);
            let loss = 0.1 + 0.3 * world.plan.trouble;
            change(&world, node, |weather| weather.loss = loss).await;
        }
        3 => {
            let slow = world.span(100, 4_000).as_millis() as u64;
            change(&world, node, |weather| weather.slow = slow).await;
        }
        4 => restart_store(&world).await,
        5 => pause(world, node).await,
        6 => crash(&world, node).await,
        7 => shut_down(&world, node).await,
        _ => step_clocks(&world),
    }
}

/// Cuts a node off from the store for a while.
async fn partition(world: &World, node: usize) {
    world.strike(Mark::Partition, node);
    let lease = world.plan.lease.as_millis() as u64;
    world.links[node].set(|weather| weather.cut = true);
    world.rest(world.span(500, 3 * lease)).await;
    world.links[node].set(|weather| weather.cut = false);
}

/// Cuts nodes off one by one, and brings them back in another order.
async fn swizzle(world: &World) {
    let mut nodes: Vec<usize> = (0..world.plan.nodes).collect();
    for cut in [true, false] {
        shuffle(world, &mut nodes);
        for node in &nodes {
            if cut && !world.is_calm() {
                world.strike(Mark::Swizzle, *node);
            }
            let cut = cut && !world.is_calm();
            world.links[*node].set(|weather| weather.cut = cut);
            world.rest(world.span(100, 3_000)).await;
        }
    }
}

fn shuffle(world: &World, nodes: &mut [usize]) {
    for at in (1..nodes.len()).rev() {
        nodes.swap(at, world.pick(at as u64 + 1) as usize);
    }
}

/// Makes a link worse for a while.
async fn change(world: &World, node: usize, change: impl FnOnce(&mut Weather)) {
    world.links[node].set(change);
    world.rest(world.span(5_000, 60_000)).await;
    world.links[node].set(|weather| {
        weather.loss = 0.0;
        weather.slow = 0;
    });
}

async fn restart_store(world: &World) {
    world.strike(Mark::StoreRestart, 0);
    world.epoch.fetch_add(1, Ordering::Relaxed);
    world.store_is_down.store(true, Ordering::Relaxed);
    world.rest(world.span(100, 8_000)).await;
    world.store_is_down.store(false, Ordering::Relaxed);
}

/// Holds a process up for a while.
pub(super) async fn pause(world: Arc<World>, node: usize) {
    let Some(process) = world.process(node) else {
        return;
    };
    let lease = world.plan.lease;
    let span = world.span(lease.as_millis() as u64 / 4, 3 * lease.as_millis() as u64);
    if span > lease {
        world.strike(Mark::Pause, node);
    }
    process.stand();
    world.rest(span).await;
    process.go_on();
}

async fn crash(world: &Arc<World>, node: usize) {
    world.strike(Mark::Crash, node);
    world.kill(node);
    come_back(world, node).await;
}

/// Ends the process of a node right now, and starts another one some time later.
pub(super) fn die(world: &Arc<World>, node: usize) {
    world.kill(node);
    let world = world.clone();
    tokio::spawn(async move { come_back(&world, node).await });
}

async fn come_back(world: &Arc<World>, node: usize) {
    world.rest(world.span(50, 20_000)).await;
    world.start(node);
}

async fn shut_down(world: &Arc<World>, node: usize) {
    let Some(process) = world.process(node) else {
        return;
    };
    world.strike(Mark::Shutdown, node);
    let engine = process.engine(Route::Opaque).clone();
    let grace = world.span(0, 5_000);
    let shutdown = process.spawn(async move { engine.shutdown(grace).await });
    // A process that hangs is killed.
    let _ = tokio::time::timeout(grace + Duration::from_secs(10), shutdown).await;
    let own = world
        .process(node)
        .is_some_and(|now| Arc::ptr_eq(&now, &process));
    if own {
        world.kill(node);
        world.rest(world.span(50, 2_000)).await;
        world.start(node);
    }
}

/// Sets the store's time of day.
fn step_clocks(world: &World) {
    const HOUR: i64 = 3_600;
    let (mark, seconds) = match world.pick(4) {
        0 => (Mark::ClockForward, 2 * HOUR),
        1 => (Mark::ClockForward, 30 * 24 * HOUR),
        2 => (Mark::ClockBack, -2 * HOUR),
        _ => (Mark::ClockBack, -30 * 24 * HOUR),
    };
    world.strike(mark, 0);
    world.store_clock.step(seconds);
}
