"""Learning is real: a small pretrained model learns to write the line that a kernel lacks, and does better on other operators.

From the repository root; it prints as it goes, and every line of ``results.jsonl`` is written when it is known::

    python -m tests.gpu.learning --model FOLDER --at-once 6 --learn-on cuda:0 --judge-on cuda:1 --minutes 8.5
    python -m tests.gpu.learning --model FOLDER --runs whole-1 --learn-on cuda:1 --judge-on cuda:1 --no-baselines
    python -m tests.gpu.learning --model FOLDER --runs whole-0 no-rft-0    some of the runs, on one device; beside it, another:
    python -m tests.gpu.learning --table                                   what is known so far
    python -m tests.gpu.learning --draw curves.png                         the curves

``--folder`` is where ``results.jsonl`` and ``judged.jsonl`` lie: what was judged is never judged again, and a run that was cut
off begins anew on it. Runs are processes of their own and share one desk. PPO ends when the time does, with an evaluation.
A run is the whole recipe (samples of the start model, rejection fine-tuning, value pretraining, PPO) or lacks a part of it:

| run | what |
|---|---|
| ``whole-0``, ``whole-1``, ``whole-2`` | the whole recipe, three seeds |
| ``no-rft-0`` | without rejection fine-tuning |
| ``no-value-0`` | without value pretraining |
| ``raw-speedup-0`` | the speed-up over torch.compile as reward, in place of -1, 1, 2, 3 |

Every reward is a quick verdict of the judge with three placements. Tasks are those of ``trainer.tasks.rows`` whose known answers
the judge tells apart on this device. Beside the runs stand a random policy (answers drawn from those that are right for some task
of training), the best constant answer to each kind of question, and the best of twelve answers of the start model.

**What has been seen**, on two H200s in 530 s, with every second task (12 of training, 8 that are held out), 12 answers to each
in an evaluation, and verdicts of the judge: the start model (SmolLM2-135M) earned -0.43 on the tasks that are held out; after
rejection fine-tuning on 38, 36 and 48 of its own answers, by seed, +0.74, +0.72 and +0.95; after one step of PPO +0.80 (seed
0). The best of twelve answers of the start model earned 1.38. **Not seen**: more steps of PPO than that, and a whole run
without a part of the recipe. The judge gave 472 verdicts on distinct answers meanwhile, 15 at work at once on each GPU; four at
work on four cores gave two verdicts a second on wrong answers, and a right one took 4 s, 1.1 of them alone on its device: give
``--judges 5`` or so to each GPU. On all 16 tasks that are held out, earlier: a random policy -0.75, the best constant answers
0.75; and the judge tells the known answers to all 40 tasks apart (right 3, the whole row 1, wrong -1; 3 to 13 us against 397 to
1,238).
"""
