"""The files of CD-SCO, the corpus of the *SEM 2012 shared task on ConanDoyle-neg, as its authors pack them."""

DATA = "cd-sco"
TRAIN_FILES = (
    "SEM-2012-SharedTask-CD-SCO-training-09032012.txt",
    "SEM-2012-SharedTask-CD-SCO-dev-09032012.txt",
)
TEST_FILES = (
    "SEM-2012-SharedTask-CD-SCO-test-cardboard-GOLD.txt",
    "SEM-2012-SharedTask-CD-SCO-test-circle-GOLD.txt",
)
