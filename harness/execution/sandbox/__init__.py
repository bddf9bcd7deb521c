"""Where candidate code runs: the strongest cage that this machine really holds, found by attacking it.

Outside, in the harness: `levels` chooses, `probe` attacks with canaries, `properties` judges what the attacks got, `box` describes one start, `view` says what a job may read. Inside, in the
process that becomes the candidate, after `launcher.py`: `inside` enters, with `namespaces`, `landlock`, `filters` and `kernel`. Standard library only there.
"""
