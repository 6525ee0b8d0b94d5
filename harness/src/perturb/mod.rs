//! Finds the bugs of a controller: one run of a workload for each thing that can go wrong at each call of the program.
//!
//! A trial is a scenario in the live world: the workload, the program in its `run:`, and one perturbation in the words of
//! faults and steps. So the file that repeats a finding is a scenario file.
//!
//! | File | Holds |
//! |---|---|
//! | `kind` | the perturbations, by their words |
//! | `names` | generated names, and what stays of them |
//! | `call` | a call of the program, named so that the next run has the same one |
//! | `plan` | the calls of three unbroken runs, and the trials |
//! | `faults` | the faults of a trial |
//! | `user_acts` | the steps of a trial in which the user acts while the program is down |
//! | `workload` | the stories that come with the tool |
//! | `recorded` | the record of a run |
//! | `ends` | the ends of runs, and the values that vary there |
//! | `verdict` | the verdict on a trial |
//! | `difference` | how the journal of a trial differs from that of an unbroken run |
//! | `campaign` | all trials and the findings |
//! | `baseline` | the findings that are known |
//! | `table`, `report`, `page` | the report: its table, its forms, and its HTML page |
//! | `repeat` | the file that repeats a finding |
//! | `trial`, `runs` | one run in a world of its own; several at a time |

pub mod baseline;
pub mod call;
pub mod campaign;
pub mod difference;
pub mod ends;
pub mod faults;
pub mod kind;
pub mod names;
pub mod page;
pub mod plan;
pub mod recorded;
pub mod repeat;
pub mod report;
pub(crate) mod runs;
pub mod table;
pub(crate) mod trial;
pub mod user_acts;
pub mod verdict;
pub mod workload;
