//! `crosstalk coldmem`.

use crate::exit::{BadArgument, SourceFailed};
use crate::quantity::size;
use crate::table::{Align, render};
use anyhow::{Context, Result, anyhow};
use crosstalk_coldmem::{
    Advice, Backend, Choice, ColdBoundary, IdleInfo, ShowError, Shown, Surveyor, WarmUp, advise,
    show,
};
use crosstalk_host::HostRoot;
use crosstalk_inventory::{Config, Inventory};
use crosstalk_model::Placement;
use crosstalk_settings::Period;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo crosstalk coldmem show                              the node
  sudo crosstalk coldmem show --cgroup /kubepods --json    a cgroup, as the kernel's fields
  sudo crosstalk coldmem advise                            what each container could give

Memory is cold when it has been idle for --age and is of one of --kinds. Nothing is ever reclaimed.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say what is known of the node, or of one cgroup, and what each back end can see
    Show {
        /// The cgroup, below the mount or as a whole path [default: the node]
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        #[command(flatten)]
        look: Look,
    },
    /// Say how much each pod or container could give now, at what age, with how many refaults
    Advise {
        /// Refaults are counted for so long
        #[arg(long, value_name = "TIME", default_value = "5s")]
        over: Period,
        #[command(flatten)]
        look: Look,
    },
}

#[derive(clap::Args)]
struct Look {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// kidled, damon, mglru or bounds [default: kidled where it works, else MGLRU, else bounds; `show` takes DAMON where
    /// these do not tell, nobody else uses it, and it can within two minutes]
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
    /// Memory is cold when it has been idle for so long
    #[arg(long, value_name = "TIME", default_value = "5m")]
    age: Period,
    /// anon, file, slab, or rows of kidled [default: inactive page cache: cfei,dfei,cfui,dfui]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Let MGLRU begin generations for --age first, so that ages reach it; this walks page tables
    #[arg(long)]
    ageing: bool,
    /// Where the host's /proc and /sys are, when not at the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
}

impl Look {
    fn choice(&self) -> Result<Choice> {
        let boundary = if self.kinds.is_empty() {
            ColdBoundary::inactive_page_cache(self.age.get())
        } else {
            ColdBoundary::new(self.age.get(), self.kinds.iter().map(String::as_str))
                .map_err(|e| BadArgument(e.to_string()))?
        };
        Ok(Choice { backend: self.backend, boundary, ageing: self.ageing })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Show { cgroup, look } => {
            let host = HostRoot::new(&look.host_root);
            let interrupted = Interrupted::watch()?;
            let wait = |surveyor: &mut Surveyor| interrupted.warm_up(surveyor, look.ageing);
            let shown = show(&host, look.choice()?, cgroup.as_deref(), wait);
            interrupted.check()?;
            let shown = shown.map_err(|error| match error {
                ShowError::Backend(capability) => anyhow!(SourceFailed(capability)),
                ShowError::NoCgroup { .. } => anyhow!(BadArgument(error.to_string())),
            })?;
            if look.json {
                println!("{:#}", json!(shown));
            } else {
                print_shown(&shown);
            }
        }
        Command::Advise { over, look } => run_advise(look, over.get())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_advise(look: &Look, over: Duration) -> Result<()> {
    let host = HostRoot::new(&look.host_root);
    let failed = |capability| anyhow!(SourceFailed(capability));
    let mut surveyor = Surveyor::open(&host, look.choice()?).map_err(failed)?;
    // Engines say who runs while memory is watched.
    let names = Inventory::start(Config::detect(&host));
    let interrupted = Interrupted::watch()?;
    interrupted.warm_up(&mut surveyor, look.ageing);
    let (before, began) = (surveyor.look().map_err(failed)?, Instant::now());
    interrupted.pause(over);
    interrupted.check()?;
    let (now, apart) = (surveyor.look().map_err(failed)?, began.elapsed());
    let room = |cgroup: &str| surveyor.swap_room(cgroup);
    let place_of = |path: &str| names.snapshot().place_path(path);
    let advice = advise(&before, &now, apart, surveyor.boundary(), room, place_of);
    let backend = surveyor.backend();
    if look.json {
        let warm_up = now.warm_up;
        println!("{:#}", json!({ "backend": backend, "warm_up": warm_up, "advice": advice }));
    } else {
        print_advice(backend, now.warm_up, &advice);
    }
    Ok(())
}

/// Whether somebody wants it to end. DAMON runs on in the kernel unless it is taken down first.
struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .context("cannot handle signals")?;
        }
        Ok(Self(flag))
    }

    fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(anyhow!("interrupted; nothing was left behind")),
            false => Ok(()),
        }
    }

    #[allow(clippy::disallowed_methods)] // time that has to pass is what is measured
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.0.load(Ordering::Relaxed) && Instant::now() < end {
            std::thread::sleep((end - Instant::now()).min(Duration::from_millis(100)));
        }
    }

    /// DAMON knows only what it saw itself, and MGLRU only what was looked at between generations: what was started for
    /// this waits until ages can reach the boundary.
    fn warm_up(&self, surveyor: &mut Surveyor, ageing: bool) {
        let boundary = *surveyor.boundary();
        match surveyor.backend() {
            Backend::Damon => {
                let time = crosstalk_coldmem::damon::watching(&boundary);
                let seconds = time.as_secs();
                eprintln!(
                    "crosstalk: DAMON watches for {seconds} s first; --backend bounds does not wait"
                );
                self.pause(time);
            }
            Backend::Mglru if ageing => {
                // Looking begins one where the youngest is half the age old, which it may not be yet at first. The kernel
                // counts in ticks: a little more.
                let step = boundary.age / 2 + Duration::from_millis(100);
                eprintln!("crosstalk: generations are begun for {} s first", (3 * step).as_secs());
                for _ in 0..3 {
                    let _ = surveyor.look();
                    self.pause(step);
                }
                let _ = surveyor.look();
            }
            _ => {}
        }
    }
}

fn or_unknown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), size)
}

fn print_shown(shown: &Shown) {
    let left = |names: [&'static str; 4]| names.map(|name| (name, Align::Left));
    let backends = shown.backends.iter().map(|b| {
        let found = &b.capability;
        let verdict = found.verdict.to_string();
        vec![verdict, b.backend.to_string(), found.found.clone(), b.warm_up.to_string()]
    });
    print!(
        "{}",
        render(&left(["", "back end", "found", "warm-up"]), &backends.collect::<Vec<_>>())
    );
    for probed in &shown.backends {
        println!("  {}: {}; costs {}", probed.backend, probed.resolution, probed.overhead);
        if let Some(fix) = &probed.capability.fix {
            println!("  {}: would help: {fix}", probed.backend);
        }
    }
    println!(
        "\n{} by {}: cold is {} idle for {} s and more",
        shown.cgroup,
        shown.backend,
        shown.rows.join(" "),
        shown.age.as_secs(),
    );
    if shown.warm_up != WarmUp::Ready {
        println!("{:<23} {}", "", shown.warm_up);
    }
    let asked_ms = u64::try_from(shown.age.as_millis()).unwrap_or(u64::MAX);
    if let Some(from_ms) = shown.cold_from_ms.filter(|from_ms| *from_ms != asked_ms) {
        let from_s = from_ms as f64 / 1e3;
        println!("{:<23} ages are told in steps, so from {from_s:.1} s", "");
    }
    println!("{:<23} {}", "cold", or_unknown(shown.cold_bytes));
    println!("{:<23} {}", "cold at most", or_unknown(shown.at_most_bytes));
    if let Some(total) = shown.idle.as_ref().and_then(IdleInfo::idle_total_bytes) {
        println!("{:<23} {}", "idle in all", size(total));
    }
    for usage in &shown.usage {
        let fallback = usage.fallback().map(|why| format!("  ({why})")).unwrap_or_default();
        println!("{:<23} {}{fallback}", usage.asked, size(usage.bytes));
    }
    if let Some(refaults) = shown.refaults {
        println!("{:<23} {refaults} pages since it was made", "refaults");
    }
    if let Some(stalled_ns) = shown.stalled_ns {
        println!("{:<23} {:.1} s since it was made", "stalled", stalled_ns as f64 / 1e9);
    }
    if let Some(problem) = &shown.problem {
        println!("not read: {problem}");
    }
    let Some(ages) = &shown.ages else { return };
    let rows = ages.iter().filter(|cell| cell.bytes > 0).map(|cell| {
        let to = cell.to_ms.map_or("and more".to_owned(), |to| format!("to {} s", to / 1_000));
        let from = format!("{} s", cell.from_ms / 1_000);
        vec![cell.kind.name().to_owned(), from, to, size(cell.bytes), or_unknown(cell.cold_bytes)]
    });
    let (l, r) = (Align::Left, Align::Right);
    let header = [("kind", l), ("idle for", r), ("", l), ("bytes", r), ("cold", r)];
    print!("\n{}", render(&header, &rows.collect::<Vec<_>>()));
}

/// The names that are known of a pod and a container, else the beginning of its id.
fn called(place: &Placement) -> String {
    let pod = match (&place.pod_namespace, &place.pod_name) {
        (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
        _ => place.pod_name.as_deref().map(str::to_owned),
    };
    let id = || place.container_id.as_deref().map(|id| id.get(..12).unwrap_or(id).to_owned());
    let container = place.container_name.as_deref().map(str::to_owned);
    match (pod, container) {
        (Some(pod), Some(container)) => format!("{pod} {container}"),
        (pod, container) => pod.or(container).or_else(id).unwrap_or_else(|| "-".to_owned()),
    }
}

fn print_advice(backend: Backend, warm_up: WarmUp, all: &[Advice]) {
    let share = |part: f64| format!("{:.1} %", part * 100.0);
    let unknown = || "unknown".to_owned();
    let rows = all.iter().map(|advice| {
        vec![
            or_unknown(advice.cold_bytes),
            or_unknown(advice.reclaimable_bytes),
            or_unknown(advice.at_most_bytes),
            format!("{} s", advice.cold_from_ms.map_or(advice.age_s, |ms| ms / 1_000)),
            advice.refaults_per_s.map_or_else(unknown, |rate| format!("{rate:.1}")),
            advice.refaults.map_or_else(unknown, |pages| pages.to_string()),
            advice.stalled.map_or_else(unknown, share),
            called(&advice.place),
            advice.cgroup.clone(),
            match (&advice.problem, advice.warm_up) {
                (Some(problem), _) => format!("not read: {problem}"),
                (None, WarmUp::Ready) => String::new(),
                (None, warm_up) => warm_up.to_string(),
            },
        ]
    });
    let right = ["cold", "reclaimable", "at most", "idle for", "refaults/s", "ever", "stalled"];
    let header: Vec<_> = right.map(|name| (name, Align::Right)).into_iter().collect();
    let header = [header, ["name", "cgroup", ""].map(|name| (name, Align::Left)).to_vec()].concat();
    print!("{}", render(&header, &rows.collect::<Vec<_>>()));
    if warm_up != WarmUp::Ready {
        println!("\nThe node by {backend}: {warm_up}.");
    }
    if backend == Backend::Bounds {
        println!(
            "\nOnly bounds are known here: see crosstalk coldmem show for what would tell ages."
        );
    }
    println!("\nNothing was reclaimed. To take memory from a cgroup: echo BYTES > memory.reclaim");
}
