// Checks with names, run one by one; results in the Test Anything Protocol on standard output.
'use strict';

// Runs the checks that the arguments name (none: all), then `end`. The exit status is 1 if any has failed.
module.exports = async function run(checks, end = async () => {}) {
  const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(checks);
  console.log(`1..${names.length}`);
  for (const name of names) {
    const started = performance.now();
    try {
      await checks[name]();
      console.log(`ok - ${name} # ${((performance.now() - started) / 1000).toFixed(2)} s`);
    } catch (error) {
      process.exitCode = 1;
      console.log(`not ok - ${name}\n${String(error.stack).slice(0, 1500).replace(/^/gm, '# ')}`);
    }
  }
  await end();
};
