--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et|t|tt|L"
====
b
a
