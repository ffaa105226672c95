//! Onceward's engine, from the outside.

mod claim;
mod clock;
mod end;
mod faults;
mod grant;
mod look;
mod memory_store;
mod meters;
mod mismatch;
mod operate;
mod point;
mod privacy;
mod rules;
mod run;
mod runtime;
mod secret;
mod shutdown;
mod sweep;
mod twins;
mod wait;
