"""The confined programs: one folder for each gate and each helper process."""
