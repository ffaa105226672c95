//! A database with a cache in front of it: in many small worlds under a seed, and on real servers
//! that are killed, paused and restored from before.

mod seeds;
mod servers;
